//! The floor: what lifts all later tokens above those of a system that one migrates from.

use super::{Machine, sum};
use crate::issuer::{Event, LogId, RaiseFloor, RaiseFloorOutcome};
use crate::limits::FLOOR_MAX;

impl Machine {
    /// Absolute, `floor = max(floor, above - sum)`: a retry changes nothing, and the floor never falls.
    pub(super) fn raise_floor(
        &mut self,
        at: LogId,
        raise: RaiseFloor,
        events: &mut Vec<Event>,
    ) -> RaiseFloorOutcome {
        let limit = raise.stamped_at_us.min(FLOOR_MAX);
        if raise.above > limit {
            return RaiseFloorOutcome::BeyondClock { limit };
        }
        // A later entry's sum is greater than this one's, so its token is greater than `above`. A
        // sum beyond 64 bits is above everything by itself.
        self.raised_above = self.raised_above.max(raise.above);
        let floor = sum(at).map_or(0, |sum| raise.above.saturating_sub(sum));
        if floor > self.floor {
            self.floor = floor;
            events.push(Event::FloorRaised { floor });
        }
        RaiseFloorOutcome::Raised { floor: self.floor }
    }
}
