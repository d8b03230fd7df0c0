//! A node with TLS, its authority, and clients that believe it.

use std::path::Path;

use weir_client::{Admin, Client, ClientError, Limits, Target};
use weir_tls::ClientTls;
use weir_tls::authority::{Authority, Usage};
use weir_tls::client::Trust;

use crate::common::trader::Trader;
use crate::common::{HANG, Home, Node, OPERATOR, Who, define_market, until};

/// What the node's certificate is for.
pub const NAME: &str = "weir.test";

pub struct Stand {
    pub home: Home,
    pub authority: Authority,
}

impl Stand {
    /// A home with certificates, and further lines of the section `[tls]`.
    pub fn new(durability: &'static str, more: &str) -> Stand {
        let home = Home::with_config(durability, "");
        let authority = Authority::new("Weir's tests").unwrap();
        let stand = Stand { home, authority };
        let path = |name: &str| stand.home.path(name).display().to_string();
        let config = format!(
            "[tls]\ncertificate = {:?}\nkey = {:?}\n{more}\n",
            path("node.pem"),
            path("node.key")
        );
        stand.write("weir.toml", &config);
        stand.write("ca.pem", &stand.authority.certificate());
        stand.write_pair("node", &stand.authority, Usage::Server);
        stand
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home.path(name), text).unwrap();
    }

    /// Writes a certificate of `authority` and its key under `name`.
    pub fn write_pair(&self, name: &str, authority: &Authority, usage: Usage) {
        let signed = authority.sign(&[NAME], usage).unwrap();
        self.write(&format!("{name}.pem"), &signed.certificate);
        self.write(&format!("{name}.key"), &signed.key);
    }

    pub fn start(&self) -> Node {
        self.home.start()
    }

    /// A client's end that believes the authority in `ca`.
    pub fn believing(&self, ca: &str) -> ClientTls {
        ClientTls::new(Trust::Authority(&self.home.path(ca)), NAME).unwrap()
    }

    /// As [`Stand::believing`] our own authority.
    pub fn tls(&self) -> ClientTls {
        self.believing("ca.pem")
    }

    pub fn target(&self, node: &Node) -> Target {
        Target { address: node.address(), tls: Some(self.tls()) }
    }

    /// Makes the market, over TLS.
    pub fn open_market(&self, node: &Node, traders: &[Who]) {
        let who = (OPERATOR.session_id, OPERATOR.key());
        let admin = Admin::connect(self.target(node), who, HANG).unwrap();
        define_market(admin, traders);
    }

    pub fn trader(&self, node: &Node, who: Who) -> Trader {
        Trader::log_on_at(self.target(node), who)
    }
}

/// Connects and logs the operator on; what became of it.
pub fn try_operator(target: impl Into<Target>) -> Result<(), ClientError> {
    let mut client = Client::connect(target, Limits::default())?;
    client.log_on(OPERATOR.config(), HANG)?;
    client.log_out(HANG)
}

/// Waits until so many handshakes have ended like this.
pub fn failed(node: &Node, kind: &str, count: u64) {
    until(kind, || {
        let failed = node.status()["tls"]["failed"].clone();
        assert!(failed[kind].as_u64().unwrap() <= count, "{failed}");
        (failed[kind] == count).then_some(())
    });
}

/// Waits until a counter of the gateway's is there.
pub fn counted(node: &Node, name: &str, count: u64) {
    until(name, || (node.status()["gateway"][name] == count).then_some(()));
}

/// The client's end with a certificate of its own.
pub fn with_certificate(stand: &Stand, node: &Node, name: &str) -> Target {
    let path = |ending: &str| stand.home.path(&format!("{name}.{ending}"));
    let (ca, pem, key) = (stand.home.path("ca.pem"), path("pem"), path("key"));
    let own: (&Path, &Path) = (&pem, &key);
    let tls = ClientTls::with_certificate(Trust::Authority(&ca), NAME, own).unwrap();
    Target { address: node.address(), tls: Some(tls) }
}
