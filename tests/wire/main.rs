//! The wire contract: the generated code is what the protos say.

mod generated;
