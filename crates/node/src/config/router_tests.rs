//! The section `[router]`: defaults, named errors, and its role.

use weir_orderstate::router::StoreRole::{Master, Replica};

use super::Config;

fn backend(address: &str, sources: &str, more: &str) -> String {
    format!(
        "[[router.backend]]\naddress = \"{address}\"\nsources = {sources}\nsession = 9\n\
         key_file = \"router.key\"\n{more}\n"
    )
}

#[test]
fn backends_are_read_with_their_defaults() {
    let text = backend("127.0.0.1:7001", "[1, 2]", "")
        + &backend("127.0.0.1:7002", "[1]", "role = \"replica\"\nindexed = false");
    let config = Config::parse(&text).unwrap();
    let router = config.router.unwrap();
    let roles: Vec<_> = router.backends.iter().map(|b| (b.role, b.indexed)).collect();
    assert_eq!(roles, [(Master, true), (Replica, false)]);
    assert_eq!((router.heartbeat_ms, router.probe_ms), (500, 200));
}

#[test]
fn what_is_wrong_with_a_backend_is_named() {
    let one = |sources: &str| backend("127.0.0.1:7001", sources, "");
    let two = |more: &str| one("[1]") + &backend("127.0.0.1:7002", "[1]", more);
    let many: Vec<u16> = (1..=65).collect();
    let cases = [
        (one("[]"), "router.backend.sources"),
        (one("[0]"), "router.backend.sources"),
        (one("[3, 3]"), "router.backend.sources"),
        (one(&format!("{many:?}")), "router.backend.sources"),
        (one("[1]") + &one("[2]"), "router.backend.address"),
        (two(""), "router.backend.role"),
        (two("role = \"slave\""), "role"),
        (two("key_kind = \"password\""), "key_kind"),
        (two("sauce = 1"), "sauce"),
        (format!("[router]\nprobe_ms = 1\n{}", one("[1]")), "router.probe_ms"),
        (format!("[router]\nheartbeat_ms = 1\n{}", one("[1]")), "router.heartbeat_ms"),
        ("[router]\nbackend = []".to_owned(), "router.backend"),
    ];
    for (text, named) in cases {
        let error = Config::parse(&text).unwrap_err().to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn a_role_and_what_is_set_for_it_have_to_fit() {
    let router = backend("127.0.0.1:7001", "[1]", "");
    let key = "[delivery]\ntoken_key = \"a\"\n";
    let ingest = "[ingest]\nlisten = \"127.0.0.1:0\"\n[[ingest.source]]\nid = 2\nsession = 1\n";
    let market = "[market_gateway]\nlisten = \"127.0.0.1:0\"\n\
                  [market_gateway.feed]\nname = \"itch\"\n\
                  [[market_gateway.feed.lines]]\na = \"127.0.0.1:1\"\n";
    let replica = "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 3\nkey_file = \"k\"\n\
                   sources = [1]\n";
    let cases = [
        (String::new(), None),
        (market.to_owned(), None),
        (format!("{replica}{market}"), Some("market_gateway = (given)")),
        (format!("role = \"router\"\n{market}{key}{router}"), Some("market_gateway = (given)")),
        (router.clone(), Some("router = (given)")),
        ("role = \"router\"\n".to_owned(), Some("router = (none)")),
        (format!("role = \"router\"\n{router}"), Some("delivery.token_key")),
        (format!("role = \"router\"\n{ingest}{key}{router}"), Some("ingest")),
        (format!("role = \"router\"\n[[partition]]\nid = 7\n{key}{router}"), Some("partition")),
        (format!("role = \"router\"\n{key}{router}"), None),
    ];
    for (text, named) in cases {
        let error = Config::parse(&text).unwrap().check_role().err();
        match (error, named) {
            (None, None) => {}
            (Some(error), Some(named)) => {
                assert!(error.to_string().contains(named), "{text}: {error}");
            }
            (error, _) => panic!("{text}: {error:?}"),
        }
    }
}
