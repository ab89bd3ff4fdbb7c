//! The house stays as drawn: imports, sizes, names and documents are checked like behaviour.
//!
//! Each check is a pure function from a [`tree::Tree`] to complaints. It has two tests: one runs it over the real
//! tree and wants no complaint, the other runs it over a synthetic tree and wants the complaint, so that a check
//! that went blind is noticed.

mod bare_core;
mod documents;
mod exit_codes;
mod features;
mod glossary;
mod imports;
mod manifest;
mod markdown;
mod metrics;
mod names;
mod paths;
mod promises;
mod rust;
mod samples;
mod sizes;
mod snippets;
mod tree;
