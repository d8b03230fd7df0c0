//! The bounds of one participant: the subscriptions of a firm, and of a session of it.
//!
//! Ended subscriptions count too, as long as they are listed. Supervisors and operators share one
//! set of names and its bound.

use weir_broker::{Broker, Name};
use weir_io::Disk;
use weir_types::{FirmId, Reason, SessionId};

use crate::plant::{self, Plant};

/// The bounds of one participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most subscriptions of a firm, and the most handles of a connection.
    pub firm_max: usize,
    /// The most subscriptions that a session has created.
    pub session_max: usize,
}

impl Bounds {
    /// Checks that a session of a firm may create one more subscription.
    pub(super) fn check<D: Disk>(
        &self,
        broker: &Broker<D>,
        firm_id: FirmId,
        session_id: SessionId,
    ) -> Result<(), Reason> {
        let names = Name::new(&format!("{firm_id}/")).expect("a number and a stroke are a name");
        let (mut firm, mut own) = broker.count_created(&names, session_id.0);
        if plant::is(Plant::FirmCountedBySession) {
            firm = own;
        }
        if plant::is(Plant::SessionCountedByFirm) {
            own = firm;
        }
        if own >= self.session_max {
            Err(Reason::TooManySessionSubscriptions)
        } else if firm >= self.firm_max {
            Err(Reason::TooManyFirmSubscriptions)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_broker::{Config, Terms, Topic, TopicKind};
    use weir_io::SimDisk;
    use weir_types::Nanos;

    use super::*;

    const BOUNDS: Bounds = Bounds { firm_max: 5, session_max: 3 };

    struct Rig(Broker<SimDisk>);

    impl Rig {
        fn new() -> Rig {
            Rig(Broker::open(Config::new(1), SimDisk::new(1), Nanos(1)).unwrap().0)
        }

        /// Creates subscriptions until one is refused; returns their number and the reason.
        fn fill(&mut self, firm: u32, session: u32) -> (usize, Reason) {
            for count in 0.. {
                if let Err(reason) = BOUNDS.check(&self.0, FirmId(firm), SessionId(session)) {
                    return (count, reason);
                }
                let name = Name::new(&format!("{firm}/{session}-{count}")).unwrap();
                let topic = Topic { kind: TopicKind::Trades, key: 0 };
                let terms = Terms { created_by: session, ..Terms::default() };
                let _change = self.0.create_on(&name, topic, terms, Nanos(1)).unwrap();
            }
            unreachable!("one is refused")
        }
    }

    fn no_participant_takes_all() {
        let mut rig = Rig::new();
        assert_eq!(rig.fill(1, 10), (3, Reason::TooManySessionSubscriptions));
        assert_eq!(rig.fill(1, 11), (2, Reason::TooManyFirmSubscriptions));
        assert_eq!(rig.fill(1, 12), (0, Reason::TooManyFirmSubscriptions));
        // Other firms have their own, also those whose number begins alike.
        assert_eq!(rig.fill(11, 20), (3, Reason::TooManySessionSubscriptions));
        assert_eq!(rig.fill(0, 30), (3, Reason::TooManySessionSubscriptions));
        let deleted = Name::new("1/10-0").unwrap();
        let _change = rig.0.delete(&deleted).unwrap();
        assert_eq!(BOUNDS.check(&rig.0, FirmId(1), SessionId(12)), Ok(()));
    }

    #[test]
    fn no_session_and_no_firm_takes_more_subscriptions_than_it_may() {
        no_participant_takes_all();
    }

    #[cfg(feature = "planted")]
    #[test]
    fn every_planted_bug_of_the_bounds_is_found() {
        for planted in [Plant::FirmCountedBySession, Plant::SessionCountedByFirm] {
            plant::set(Some(planted));
            let found = std::panic::catch_unwind(no_participant_takes_all).is_err();
            plant::set(None);
            assert!(found, "{planted:?}");
        }
    }
}
