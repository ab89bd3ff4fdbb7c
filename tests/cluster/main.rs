//! Clusters of real `fencepost` processes on real sockets, and the histories that they are judged by.

mod checks;
mod history;
