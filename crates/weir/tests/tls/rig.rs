//! A node with TLS, its authority, and clients that trust it.

use weir_client::{Admin, Client, ClientError, Limits, Target};
use weir_tls::ClientTls;
use weir_tls::authority::{Authority, Usage};
use weir_tls::client::Trust;

use crate::support::trader::Trader;
use crate::support::{HANG, Home, Node, OPERATOR, Who, define_market, until};

/// The name in the node's certificate.
pub const NAME: &str = "weir.test";

pub struct Rig {
    pub home: Home,
    pub authority: Authority,
}

impl Rig {
    /// Returns a home with certificates; `more` is appended to the section `[tls]`.
    pub fn new(durability: &'static str, more: &str) -> Rig {
        let home = Home::with_config(durability, "");
        let authority = Authority::new("Weir's tests").unwrap();
        let rig = Rig { home, authority };
        let path = |name: &str| rig.home.path(name).display().to_string();
        let config = format!(
            "[tls]\ncertificate = {:?}\nkey = {:?}\n{more}\n",
            path("node.pem"),
            path("node.key")
        );
        rig.write("weir.toml", &config);
        rig.write("ca.pem", &rig.authority.certificate());
        rig.write_pair("node", &rig.authority, Usage::Server);
        rig
    }

    pub fn write(&self, name: &str, text: &str) {
        weir_io::durable::write_file(&self.home.path(name), text.as_bytes(), 0o600).unwrap();
    }

    /// Writes a certificate signed by `authority` and its key under `name`.
    pub fn write_pair(&self, name: &str, authority: &Authority, usage: Usage) {
        let signed = authority.sign(&[NAME], usage).unwrap();
        self.write(&format!("{name}.pem"), &signed.certificate);
        self.write(&format!("{name}.key"), &signed.key);
    }

    pub fn start(&self) -> Node {
        self.home.start()
    }

    /// Returns a client's TLS settings that trust the authority in `ca`.
    pub fn believing(&self, ca: &str) -> ClientTls {
        ClientTls::new(Trust::Authority(&self.home.path(ca)), NAME).unwrap()
    }

    /// As [`Rig::believing`], with the rig's own authority.
    pub fn tls(&self) -> ClientTls {
        self.believing("ca.pem")
    }

    pub fn target(&self, node: &Node) -> Target {
        Target::of(node.address(), Some(self.tls()))
    }

    /// Defines the market, over TLS.
    pub fn open_market(&self, node: &Node, traders: &[Who]) {
        define_market(self.admin(node), traders);
    }

    /// Returns the operator's client, over TLS.
    pub fn admin(&self, node: &Node) -> Admin {
        let Who { session_id, .. } = OPERATOR;
        Admin::connect(self.target(node), session_id, OPERATOR.key(), HANG).unwrap()
    }

    pub fn trader(&self, node: &Node, who: Who) -> Trader {
        Trader::log_on_at(self.target(node), who)
    }
}

/// Connects, logs the operator on and off, and returns the outcome.
pub fn try_operator(target: impl Into<Target>) -> Result<(), ClientError> {
    let mut client = Client::connect(target, Limits::default())?;
    client.log_on(OPERATOR.config(), HANG)?;
    client.log_out(HANG)
}

/// Waits until `count` handshakes have failed with this kind.
pub fn failed(node: &Node, kind: &str, count: u64) {
    until(kind, || {
        let failed = node.status()["tls"]["failed"].clone();
        assert!(failed[kind].as_u64().unwrap() <= count, "{failed}");
        (failed[kind] == count).then_some(())
    });
}

/// Waits until a gateway counter has this value.
pub fn counted(node: &Node, name: &str, count: u64) {
    until(name, || (node.status()["gateway"][name] == count).then_some(()));
}

/// Returns a target with a client certificate.
pub fn with_certificate(rig: &Rig, node: &Node, name: &str) -> Target {
    let path = |ending: &str| rig.home.path(&format!("{name}.{ending}"));
    let (ca, pem, key) = (rig.home.path("ca.pem"), path("pem"), path("key"));
    let tls = ClientTls::with_certificate(Trust::Authority(&ca), NAME, &pem, &key).unwrap();
    Target::of(node.address(), Some(tls))
}
