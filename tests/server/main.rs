//! A node in one process, through its API.
