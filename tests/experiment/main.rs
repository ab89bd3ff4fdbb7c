//! Kleppmann's story as an experiment: real processes, a holder that is stopped inside its critical section, a fenced register and an
//! unfenced one side by side.
