//! Arbitrary text as a node's configuration file, and as an API key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_node::config::Config;
use weir_types::hex::parse_key;

fuzz_target!(|text: &str| {
    match Config::parse(text) {
        Ok(config) => assert!(config.check().is_ok(), "a file that reads is in range"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = parse_key(text);
});
