//! The guards.
