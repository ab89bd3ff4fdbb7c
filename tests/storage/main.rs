//! The store, and what damages it.
