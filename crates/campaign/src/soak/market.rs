//! The market of a soak: instruments, and the sessions of all parties with fresh keys.

use weir_client::load::setup::{fresh_key, hire_all};
use weir_client::load::{Listing, SetupPlan, Trader, set_up};
use weir_client::request::session_by_key;
use weir_client::{Admin, SessionConfig};
use weir_types::{FirmId, Role, SessionId};
use weir_wire::session::ApiKey;

use super::TIMEOUT;
use super::node::{Home, Node};

/// The first session, account and instrument of the load, and its firm.
const LOAD: u32 = 1_000;
const LOAD_SESSIONS: u32 = 8;
const INSTRUMENTS: u32 = 4;
/// The first session and account of the visitors, and their firm.
const VISITORS: u32 = 2_000;
const VISITOR_SESSIONS: u32 = 4;
/// Within the outcomes that the engine remembers, so that nothing is sent too late to be repeated.
const UNANSWERED_MAX: usize = 1_024;

/// A session with an API key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    pub(super) session_id: SessionId,
    pub(super) key: ApiKey,
}

impl Login {
    pub(super) fn config(&self) -> SessionConfig {
        SessionConfig::new(self.session_id, self.key)
    }

    /// The value of the header `Authorization`.
    pub(super) fn bearer(&self) -> String {
        let key: String = self.key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("Bearer {}:{key}", self.session_id)
    }
}

/// The participants, all of them defined at the node.
pub(super) struct Market {
    pub(super) traders: Vec<Trader>,
    pub(super) listings: Vec<Listing>,
    pub(super) visitors: Vec<Trader>,
    /// Supervisors: of the binary follower, of the one over HTTP, of the durable subscription.
    pub(super) supervisors: [Login; 3],
    /// The desk of the load's firm.
    pub(super) desk: Login,
    pub(super) load_firm: FirmId,
}

impl Market {
    /// Defines the market at a new node.
    pub(super) fn open(home: &Home, node: &Node) -> anyhow::Result<Market> {
        let mut admin = Admin::connect(node.order_entry(), SessionId(1), home.key(), TIMEOUT)?;
        let plan = |first_id, session_count, instrument_count| SetupPlan {
            first_id,
            session_count,
            instrument_count,
            unanswered_count_max: UNANSWERED_MAX,
        };
        let (none, load_firm) = (FirmId::NONE, FirmId(LOAD));
        let supervisors = [
            define(&mut admin, 10, Role::Supervisor, none)?,
            define(&mut admin, 11, Role::Supervisor, none)?,
            define(&mut admin, 12, Role::Supervisor, none)?,
        ];
        let (traders, listings) = set_up(&mut admin, &plan(LOAD, LOAD_SESSIONS, INSTRUMENTS))?;
        let desk = define(&mut admin, 13, Role::DropCopy, load_firm)?;
        // Waits for the imports of all definitions before.
        let visitors = hire_all(&mut admin, &plan(VISITORS, VISITOR_SESSIONS, 0))?;
        admin.close()?;
        Ok(Market { traders, listings, visitors, supervisors, desk, load_firm })
    }
}

fn define(admin: &mut Admin, id: u32, role: Role, firm_id: FirmId) -> anyhow::Result<Login> {
    let (session_id, key) = (SessionId(id), fresh_key()?);
    admin.define_session(session_by_key(session_id, firm_id, role, &key))?;
    Ok(Login { session_id, key })
}
