//! Kleppmann's story as an experiment.
