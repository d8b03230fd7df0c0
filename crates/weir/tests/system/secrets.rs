//! Files with secrets: each kind is refused while other users can read it, with the file, its mode
//! and the command that repairs it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Home;

/// The file of a secret, in a home's directory.
const SECRET: &str = "the-secret";

/// The use of a secret's file.
enum User {
    /// A node with this configuration, in which `SECRET` stands for the file's path.
    Node(&'static str),
    /// A command with these options before the file.
    Command(&'static [&'static str]),
}

/// All kinds of files with secrets.
const KINDS: &[(&str, User)] = &[
    ("own key of tokens", User::Node("")),
    ("shared key of tokens", User::Node("[delivery]\ntoken_key = SECRET")),
    ("key that opens tokens", User::Node("[delivery]\ntoken_keys_opened = [SECRET]")),
    ("private key of TLS", User::Node("[tls]\ncertificate = CERTIFICATE\nkey = SECRET")),
    (
        "key of a replica",
        User::Node(
            "[replica]\nmaster = \"127.0.0.1:1\"\nsession = 2\nkey_file = SECRET\nsources = [1]",
        ),
    ),
    (
        "key of a router",
        User::Node(
            "role = \"router\"\n[delivery]\ntoken_key = TOKENS\n[[router.backend]]\n\
             address = \"127.0.0.1:1\"\nsources = [1]\nsession = 2\nkey_file = SECRET",
        ),
    ),
    (
        "password of the market's snapshots",
        User::Node(
            "[market_publisher]\ngroup = \"239.255.41.8:30001\"\nrequests = \"127.0.0.1:0\"\n\
             snapshots = \"127.0.0.1:0\"\nsnapshots_username = \"weir\"\n\
             snapshots_password_file = SECRET",
        ),
    ),
    (
        "password at a feed's snapshots",
        User::Node(
            "[market_gateway]\nlisten = \"127.0.0.1:0\"\n[market_gateway.feed]\nname = \"itch\"\n\
             [[market_gateway.feed.lines]]\na = \"127.0.0.1:0\"\n\
             [market_gateway.feed.lines.glimpse]\naddress = \"127.0.0.1:1\"\nusername = \"weir\"\n\
             password_file = SECRET",
        ),
    ),
    ("API key", User::Command(&["orders", "--once", "--key-file"])),
    ("signing key", User::Command(&["orders", "--once", "--signing-key"])),
    (
        "private key of a client",
        User::Command(&[
            "orders",
            "--once",
            "--key",
            "0101010101010101010101010101010101010101010101010101010101010101",
            "--tls-ca",
            "CERTIFICATE",
            "--tls-certificate",
            "CERTIFICATE",
            "--tls-key",
        ]),
    ),
];

fn write(path: &Path, text: &[u8], mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Writes certificate and key of an authority of its own; returns the certificate's file.
fn certificate_in(home: &Home) -> PathBuf {
    let signed = weir_tls::authority::Authority::new("test").unwrap();
    let path = home.path("certificate.pem");
    write(&path, signed.certificate().as_bytes(), 0o644);
    path
}

/// Runs the user of the secret, which fails.
fn run(home: &Home, user: &User) -> Output {
    let certificate = certificate_in(home);
    match user {
        User::Node(config) => {
            let tokens = home.path("tokens");
            write(&tokens, &[7; 32], 0o600);
            let config = config
                .replace("SECRET", &format!("{:?}", home.path(SECRET)))
                .replace("CERTIFICATE", &format!("{certificate:?}"))
                .replace("TOKENS", &format!("{tokens:?}"));
            std::fs::write(home.path("weir.toml"), config).unwrap();
            home.fail_to_start()
        }
        User::Command(words) => {
            let certificate = certificate.to_str().unwrap();
            let words = words.iter().map(|word| word.replace("CERTIFICATE", certificate));
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.args(words).arg(home.path(SECRET)).args(["--node", "127.0.0.1:1"]);
            command.output().unwrap()
        }
    }
}

#[test]
fn a_secret_of_any_kind_that_others_can_read_is_refused_with_the_command_that_repairs_it() {
    for (kind, user) in KINDS {
        for mode in [0o640, 0o604] {
            let home = Home::new("memory");
            let is_own = matches!(user, User::Node(""));
            let path = if is_own { home.data().join("token.key") } else { home.path(SECRET) };
            std::fs::create_dir_all(home.data()).unwrap();
            write(&path, &[b'0'; 64], mode);
            let output = run(&home, user);
            assert!(!output.status.success(), "{kind}: {output:?}");
            let said = String::from_utf8_lossy(&output.stderr);
            let path = path.display();
            let wanted = format!("{path}: others may read it (mode {mode:03o}): chmod 600 {path}");
            assert!(said.contains(&wanted), "{kind}: {said}");
        }
    }
}
