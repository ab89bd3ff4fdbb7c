//! Whole clusters of real processes, and what kills them.
