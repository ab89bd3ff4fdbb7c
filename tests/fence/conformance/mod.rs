//! The conformance kit: against guards that are wrong, and against all of our own.

mod shelf;
mod wrong;
