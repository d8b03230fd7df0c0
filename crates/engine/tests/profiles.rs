//! The same log gives the same digest and the same snapshot on every build profile.
//!
//! `cargo test` plays these scripts in a development build, `./x test` in a release build too. The
//! expected values are constants, so both, and builds by other compilers and for other machines,
//! are compared with one another. The meaning of a change:
//!
//! * Only the generator (`src/script`) changed: the scripts differ, as `commands` shows. Record the
//!   new values.
//! * `digest` changed otherwise (mostly with `commands`, because scripts name reported orders): the
//!   engine emits other events for the same log. An older log then gives other events than before:
//!   nodes of both builds disagree, and clients would receive past events again with other content.
//!   Raise `RULES_VERSION`, add a row to `WANTED`, and leave the rows before it as they are:
//!   command logs record the version, and a start that would execute commands of another one is
//!   refused (`docs/adr/0018-versions-of-rules.md`). The snapshots of the version before must stay
//!   readable.
//! * `defaults` changed: a limit of `EngineConfig::new` did, one that follows from those, or a
//!   constant, and an older log gives other events once it reaches the limit, which the scripts,
//!   with limits of their own, do not see. As for `digest`: a version and a row.
//! * `snapshot` alone changed: its format did. It has a version; old ones must be refused or read.
//!
//! Never record a new value only because the test fails. The test of the versions notices rows that
//! were left out or equal; only a reader of the change notices a row that was rewritten.

use proptest::prelude::*;
use weir_engine::script::{Script, Tally};
use weir_engine::{Engine, EngineConfig, RULES_VERSION};
use weir_types::{PartitionId, Position};

/// A script and its expected results.
struct Want {
    seed: u64,
    partition_id: PartitionId,
    commands: u64,
    digest: u64,
    snapshot: u64,
}

/// The results of a version of the rules.
struct RulesWant {
    rules: u32,
    /// The [`defaults`]; none of the version that had other limits. That of version 2 is of the
    /// fields alone.
    defaults: Option<u64>,
    scripts: [Want; 4],
}

/// The results by version, oldest first: the last row is that of this engine.
const WANTED: &[RulesWant] = &[
    RulesWant {
        rules: 1,
        defaults: None,
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x0360_9860_9698_7108,
                digest: 0xcebc_fed3_db89_977e,
                snapshot: 0xdd02_76a9_b4a3_2c4d,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x0a0a_cc08_c173_4979,
                digest: 0x183e_e25f_b098_a494,
                snapshot: 0x4e53_65f9_6957_6836,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0xcf07_cbc2_9416_25a2,
                digest: 0x4ace_9736_336b_42b6,
                snapshot: 0x9fef_dcb6_94b6_3236,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x8a29_b2e0_e362_9ac3,
                digest: 0x71df_024b_b921_7c58,
                snapshot: 0x6f23_c202_3716_4875,
            },
        ],
    },
    RulesWant {
        rules: 2,
        defaults: Some(0xd5b3_cca4_03b8_674b),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0xec42_7b14_68ae_cf36,
                digest: 0x0f81_3639_74ac_8ab7,
                snapshot: 0xc1a2_cb1d_427c_da7c,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x3c86_b35f_e9b0_87ad,
                digest: 0xa3b4_2c8b_9527_bb71,
                snapshot: 0x30cc_1dc9_21ab_264c,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0xfca9_a0a5_5b6a_3b3b,
                digest: 0xb8e7_2c44_8124_2865,
                snapshot: 0x4b71_15a3_df45_f165,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x8a29_b2e0_e362_9ac3,
                digest: 0x71df_024b_b921_7c58,
                snapshot: 0x6f23_c202_3716_4875,
            },
        ],
    },
    RulesWant {
        rules: 3,
        defaults: Some(0x4e0b_2cde_26be_11ae),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0xbed2_8e1b_72ad_5ffa,
                digest: 0x4005_a353_6549_bbd5,
                snapshot: 0x0032_ad4f_4283_4091,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x2a99_4a55_a2c0_cf8d,
                digest: 0x90b7_9005_172d_94de,
                snapshot: 0xa51d_e00b_043c_4288,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0x2c8b_4866_9e5f_7344,
                digest: 0x90c9_1308_3240_82a6,
                snapshot: 0xf179_e12c_f56d_fc2a,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x8a29_b2e0_e362_9ac3,
                digest: 0x71df_024b_b921_7c58,
                snapshot: 0x6f23_c202_3716_4875,
            },
        ],
    },
    RulesWant {
        rules: 4,
        defaults: Some(0x604a_a273_264c_8ff6),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x5eed_039c_8eac_262f,
                digest: 0xdc02_3917_bfeb_bb82,
                snapshot: 0x4193_c247_7072_c383,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x07b4_96fe_a089_5c98,
                digest: 0x38c9_241a_e60a_7361,
                snapshot: 0x624d_2cab_bc1e_01d4,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0x0867_df9c_4bc9_653b,
                digest: 0x064c_5bd4_a6d7_f968,
                snapshot: 0xf569_3594_c0fb_b098,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x8a29_b2e0_e362_9ac3,
                digest: 0x71df_024b_b921_7c58,
                snapshot: 0x6f23_c202_3716_4875,
            },
        ],
    },
    RulesWant {
        rules: 5,
        defaults: Some(0x604a_a273_264c_8ff6),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0xd962_aa17_2a2f_ce30,
                digest: 0x6965_c2cb_1f16_990c,
                snapshot: 0xd3b7_e170_c3e0_8a17,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0xdcef_0d31_c9ec_b9a6,
                digest: 0x629e_ef5e_b394_cf1c,
                snapshot: 0x72df_90b9_8764_2a9f,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0xb50b_ead7_4a3d_6380,
                digest: 0xab7e_c666_e420_7571,
                snapshot: 0xcade_25cb_0ec9_7283,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x7498_5668_fae4_ee54,
                digest: 0xf6de_89f2_ade9_c5f5,
                snapshot: 0x3484_5f6b_551e_0e80,
            },
        ],
    },
    RulesWant {
        rules: 6,
        defaults: Some(0x233a_ef59_9faa_faba),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x2003_aa78_b9f1_b658,
                digest: 0x4cdb_7990_f3ee_f34d,
                snapshot: 0xfb82_ebe4_ef88_5c4a,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x60a8_92d6_471e_dbf0,
                digest: 0x5176_4d32_c83e_9ae2,
                snapshot: 0x8e34_a3ff_2965_a07d,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0x943c_dee7_9a16_aa27,
                digest: 0x1aef_d884_0623_30a9,
                snapshot: 0xb33c_7807_3407_8769,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0x7498_5668_fae4_ee54,
                digest: 0xf6de_89f2_ade9_c5f5,
                snapshot: 0x3484_5f6b_551e_0e80,
            },
        ],
    },
    RulesWant {
        rules: 7,
        defaults: Some(0xe7a5_2463_0b8c_128a),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x0613_6a89_b11a_07f7,
                digest: 0xc800_d88b_b63d_957b,
                snapshot: 0xf1f8_ccb4_c878_28b3,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0xd24d_fefa_6c33_bd8b,
                digest: 0xf120_1a85_4dfa_5864,
                snapshot: 0x843c_def1_2e4e_655c,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0xeb96_4ed0_24cc_8ab2,
                digest: 0x7a2f_80ab_f2ff_628e,
                snapshot: 0x3c07_6a73_93bf_6175,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0xba9b_bda4_51c4_faa1,
                digest: 0x0bb9_c083_594c_d9d2,
                snapshot: 0x1ef7_6975_dad9_2144,
            },
        ],
    },
    RulesWant {
        rules: 8,
        defaults: Some(0x364e_2575_40a1_616d),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x8c9f_c95a_2e43_53ec,
                digest: 0x72e4_62dd_fe29_bbc3,
                snapshot: 0x8750_fe7d_0942_7712,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x5433_cf77_903c_3ea5,
                digest: 0xe366_701f_a501_63f1,
                snapshot: 0xacd7_2c3b_b5b5_1e2e,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0x1f94_9df1_f76c_c41e,
                digest: 0x3173_0c42_13ca_7880,
                snapshot: 0x4201_d878_9c89_0205,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0xba9b_bda4_51c4_faa1,
                digest: 0x0bb9_c083_594c_d9d2,
                snapshot: 0x1f8b_c9ab_4699_5ec0,
            },
        ],
    },
    RulesWant {
        rules: 9,
        defaults: Some(0x364e_2575_40a1_616d),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0x9db3_0b8b_5aad_ac9e,
                digest: 0xc8b6_e0a6_31ac_2a5d,
                snapshot: 0xd8dc_3bf6_a3b2_5f17,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x152c_4b5d_2377_1b79,
                digest: 0x30da_b51c_ea86_c162,
                snapshot: 0x40a1_971f_6853_deba,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0xad9e_5d2d_8ee1_358f,
                digest: 0xf797_432e_0d03_578a,
                snapshot: 0xab8d_5f32_41f0_3fdc,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0xc44c_ca04_161e_b2a4,
                digest: 0x4f7a_321b_d744_1b62,
                snapshot: 0x9245_50ad_a5cd_fbf0,
            },
        ],
    },
    RulesWant {
        rules: 10,
        defaults: Some(0x364e_2575_40a1_616d),
        scripts: [
            Want {
                seed: 1,
                partition_id: PartitionId(1),
                commands: 0xf5aa_2355_7d60_450a,
                digest: 0x47a2_6671_fbeb_b21d,
                snapshot: 0xcabf_3a48_167d_fe92,
            },
            Want {
                seed: 2,
                partition_id: PartitionId(1),
                commands: 0x7bef_e153_111f_3376,
                digest: 0x2e59_a87f_f0b0_fab6,
                snapshot: 0x0fc4_1766_8d45_6e7f,
            },
            Want {
                seed: 3,
                partition_id: PartitionId(1),
                commands: 0x38fb_491b_0be3_a3c3,
                digest: 0x7148_21c3_ff8a_0fc7,
                snapshot: 0x1d88_c59b_9f65_a398,
            },
            Want {
                seed: 4,
                partition_id: PartitionId(0),
                commands: 0xf395_59e1_8d53_3a9c,
                digest: 0x0a5f_542f_e152_3f42,
                snapshot: 0x4ebd_24d6_a508_dde5,
            },
        ],
    },
];

/// Returns the hash of the limits that every engine has by default and that can change an event: a
/// new one is added here, or to `EngineConfig::limits_beside_fields`, with a new version of the
/// rules.
fn defaults() -> u64 {
    let config = EngineConfig::new(PartitionId(1));
    let others = config.limits_beside_fields();
    others.into_iter().fold(of_fields(config), |hash, limit| hashed(hash, &limit.to_le_bytes()))
}

fn of_fields(config: EngineConfig) -> u64 {
    let EngineConfig {
        partition_id: _,
        orders_max,
        orders_per_session_max,
        orders_per_account_max,
        orders_per_firm_max,
        sweep_ends_max,
        sweep_visits_max,
        tick_changes_max,
        sweeps_max,
        accounts_max,
        sessions_max,
        firms_max,
        instruments_max,
        positions_max,
        trades_max,
        trades_span,
        hash_seed: _,
        memory: _,
        checkpoint_interval,
        is_digested,
        outcomes_max,
        has_risk,
    } = config;
    let of_orders =
        [orders_max, orders_per_session_max, orders_per_account_max, orders_per_firm_max];
    let of_steps = [sweep_ends_max, sweep_visits_max, tick_changes_max, sweeps_max];
    let of_tables = [accounts_max, sessions_max, firms_max, instruments_max, positions_max];
    let limits = [&of_orders[..], &of_steps, &of_tables, &[trades_max]].concat();
    let others = [
        checkpoint_interval,
        is_digested.into(),
        u64::from(outcomes_max),
        has_risk.into(),
        trades_span.0,
    ];
    let words = limits.into_iter().map(u64::from).chain(others);
    words.fold(HASH_START, |hash, word| hashed(hash, &word.to_le_bytes()))
}

/// Returns the expected results of this engine.
fn wanted() -> &'static [Want; 4] {
    &WANTED.last().expect("there is a first version").scripts
}

/// Kinds of commands and events that the scripts must reach, or their digests would prove little.
const REACHED: &[(&str, &[&str])] = &[
    (
        "command",
        &[
            "NewOrder",
            "ReplaceOrder",
            "CancelOrder",
            "MassCancel",
            "Define",
            "Transfer",
            "AccountInquiry",
            "SetPhase",
            "KillSwitch",
            "BustTrade",
            "SchedulePhase",
            "ResumeTrading",
            "SetReference",
            "ChangePhases",
            "SchedulePhases",
            "Import",
            "Tick",
            "SessionLost",
            "SessionChoice",
            "SetLimits",
        ],
    ),
    (
        "event",
        &[
            "OrderEvent",
            "RequestRejected",
            "RequestDone",
            "PhaseChanged",
            "Checkpoint",
            "TradeBusted",
            "Uncrossed",
            "Uncrossed with trades",
            "ReferencesChanged",
            "Defined",
        ],
    ),
    ("phase", &["Closed", "OpeningCall", "Continuous", "VolatilityCall", "ClosingCall", "Halted"]),
    ("entered type", &["Limit", "Market", "Stop", "StopLimit"]),
    ("entered time in force", &["Day", "Gtc", "Gtd", "Ioc", "Fok", "AtTheOpen", "AtTheClose"]),
    ("entered condition", &["Iceberg", "MinQty", "PostOnly"]),
    ("order event", &["New", "Trade", "Canceled", "Expired", "Replaced", "Restated", "Triggered"]),
];

const COMMAND_COUNT: u64 = 12_000;
const CHUNK_LEN: usize = 1 << 14;

/// The results of a script.
#[derive(Debug, PartialEq, Eq)]
struct Became {
    commands: u64,
    digest: u64,
    snapshot: u64,
}

/// Fills `bytes` with values that look random and are the same everywhere.
fn fill(state: &mut u64, bytes: &mut [u8]) {
    for byte in bytes {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (*state >> 56) as u8;
    }
}

/// Continues an FNV-1a hash from `hash`.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

fn config(partition_id: PartitionId) -> EngineConfig {
    EngineConfig {
        orders_max: 64,
        orders_per_session_max: 20,
        orders_per_account_max: 22,
        orders_per_firm_max: 36,
        sweep_ends_max: 3,
        sweep_visits_max: 6,
        tick_changes_max: 2,
        sweeps_max: 2,
        accounts_max: 8,
        sessions_max: 8,
        firms_max: 3,
        instruments_max: 4,
        positions_max: 12,
        trades_max: 64,
        checkpoint_interval: 64,
        ..EngineConfig::new(partition_id)
    }
}

fn snapshot_of(engine: &Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.snapshot(&mut bytes);
    bytes
}

/// Plays a script; after `restore_after` commands continues with an engine restored from a
/// snapshot.
fn play(seed: u64, partition_id: PartitionId, restore_after: u64, tally: &mut Tally) -> Became {
    let mut script = if partition_id.0 == 0 { Script::for_control(&[]) } else { Script::new(&[]) };
    let mut engine = Engine::new(config(partition_id));
    let (mut state, mut bytes) = (seed, vec![0; CHUNK_LEN]);
    let (mut events, mut encoded) = (Vec::new(), Vec::new());
    let (mut count, mut commands) = (0, HASH_START);
    while count < COMMAND_COUNT {
        fill(&mut state, &mut bytes);
        let mut part = script.continued(&bytes);
        while count < COMMAND_COUNT && !part.is_over() {
            let command = part.command();
            count += 1;
            encoded.clear();
            command.encode(&mut encoded);
            commands = hashed(commands, &encoded);
            events.clear();
            engine.apply(Position(count), part.now(), &command, &mut events);
            part.hear(&events);
            tally.command(&command, &events);
            if count == restore_after {
                // The layout of rows in memory must have no visible effect.
                let config = EngineConfig { hash_seed: seed ^ count, ..config(partition_id) };
                engine = Engine::restore(config, &snapshot_of(&engine)).expect("it reads back");
            }
        }
        script = part.continued(&[]);
    }
    let snapshot = hashed(HASH_START, &snapshot_of(&engine));
    Became { commands, digest: engine.digest(), snapshot }
}

fn check(want: &Want, restore_after: u64, tally: &mut Tally) {
    let became = play(want.seed, want.partition_id, restore_after, tally);
    let Want { commands, digest, snapshot, .. } = *want;
    let wanted = Became { commands, digest, snapshot };
    assert!(
        became == wanted,
        "rules {RULES_VERSION}, seed {} restored after {restore_after}: {became:#018x?}, not \
         {wanted:#018x?}; read the top of this file",
        want.seed
    );
}

#[test]
fn the_same_log_gives_the_same_digest_on_every_build_profile() {
    let mut tally = Tally::default();
    for want in wanted() {
        check(want, 0, &mut tally);
    }
    for (group, kinds) in REACHED {
        for kind in *kinds {
            assert!(tally.of(group, kind) >= 3, "{group} {kind}: {}", tally.of(group, kind));
        }
    }
}

#[test]
fn each_version_of_the_rules_has_digests_of_its_own() {
    for (row, number) in WANTED.iter().zip(1..) {
        assert_eq!(row.rules, number, "versions count up from 1, and none is left out");
    }
    assert_eq!(WANTED.last().map(|row| row.rules), Some(RULES_VERSION), "this engine's row");
    for pair in WANTED.windows(2) {
        let digests =
            |row: &RulesWant| (row.defaults, row.scripts.each_ref().map(|want| want.digest));
        assert_ne!(digests(&pair[0]), digests(&pair[1]), "version {}", pair[1].rules);
    }
}

#[test]
fn the_default_limits_are_those_of_the_rules() {
    let wanted = WANTED.last().and_then(|row| row.defaults).expect("each new version has them");
    assert!(
        defaults() == wanted,
        "rules {RULES_VERSION}: {:#018x}, not {wanted:#018x}; read the top of this file",
        defaults()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_restore_on_the_way_changes_nothing(which in 0..wanted().len(), after in 1..COMMAND_COUNT) {
        check(&wanted()[which], after, &mut Tally::default());
    }
}
