//! The question before a command that cannot be taken back, or that stops a market.
//!
//! On a terminal the command says its effect and asks. Without one there is nobody to ask: it
//! is refused, unless `--yes` was given.

use std::io::{BufRead, IsTerminal};

use anyhow::{Context, bail, ensure};
use weir_client::status::{InstrumentStatus, phase_name};
use weir_runtime::civil::utc;
use weir_types::{KillScope, MassCancelScope, MatchId, PartitionId, Phase};

use super::{
    AdminArgs, AdminCommand, CalendarArgs, CancelArgs, KillArgs, ScheduleArgs, define, filing,
    many, name_of,
};
use crate::plant::{self, Plant};
use crate::trading::history;

/// Returns when the command needs no consent, or has it.
///
/// # Errors
/// When it is denied, or nobody can be asked.
pub(super) fn obtain(args: &AdminArgs) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    let Some(effect) = effect(args)? else { return Ok(()) };
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprint!("{effect}. Go on? [y/N] ");
        return ask(&mut stdin.lock());
    }
    bail!("{effect}: there is no terminal to ask on; give --yes to do it without being asked")
}

fn ask(input: &mut dyn BufRead) -> anyhow::Result<()> {
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let is_given = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    ensure!(is_given, "nothing was done");
    Ok(())
}

/// Returns what the command will do, if it needs consent.
fn effect(args: &AdminArgs) -> anyhow::Result<Option<String>> {
    Ok(match &args.command {
        AdminCommand::Instrument(instrument) => {
            define::renaming(&args.login, instrument)?.map(|(from, to)| {
                format!("this renames {from} to {to}, for participants and in market data")
            })
        }
        AdminCommand::Kill(KillArgs {
            scope: KillScope::All,
            off: false,
            partition,
            cancel,
            ..
        }) => {
            let partition = within(*partition);
            let and = if *cancel { " and cancels all live orders" } else { "" };
            Some(format!("this stops the entry of orders for everybody{and}, {partition}"))
        }
        AdminCommand::Kill(KillArgs { scope, id, cancel: true, partition, .. }) => {
            let partition = within(*partition);
            Some(format!(
                "this stops the entry of orders for {} {id} and cancels their live orders, \
                 {partition}",
                name_of(scope)
            ))
        }
        AdminCommand::Halt { instrument } => stopped(args, instrument, Phase::Halted)?,
        AdminCommand::Phase { instrument, phase, .. } => stopped(args, instrument, *phase)?,
        AdminCommand::Bust { match_id, partition, force } => {
            let of = partition.map_or_else(String::new, |id| format!(" of partition {id}"));
            let trade = match plant::is(Plant::BustUnseen) {
                true => String::new(),
                false => format!(", {}", traded(args, *partition, *match_id)),
            };
            let owes = "; an account that has spent them may be in debt behind it";
            let debt = if *force { owes } else { "" };
            Some(format!(
                "this takes trade {match_id}{of} back{trade}: cash and lots return, and both sides \
                 are told{debt}"
            ))
        }
        AdminCommand::Schedule(schedule) => scheduled(args, schedule)?,
        AdminCommand::Calendar(calendar) => replaced(args, calendar)?,
        AdminCommand::Cancel(cancel) => Some(cancelled(cancel)),
        AdminCommand::Source(source) => Some(source.effect()),
        _ => None,
    })
}

/// Returns the effect of a phase that ends trading in all instruments, or in those of a group. A
/// halt does without the status page, which would name them, whichever look at it fails.
fn stopped(args: &AdminArgs, name: &str, phase: Phase) -> anyhow::Result<Option<String>> {
    let Some(group_id) = many::group_of(name)? else { return Ok(None) };
    if !matches!(phase, Phase::Halted | Phase::Closed) {
        return Ok(None);
    }
    let of = many::of_group(group_id);
    let rows = match many::members_if_any(args, group_id) {
        Err(error) if phase == Phase::Halted => {
            return Ok(Some(format!("this makes all instruments{of} halted ({error:#})")));
        }
        rows => rows?.with_context(|| many::no_instruments(group_id))?,
    };
    let (count, symbols, phase) = (rows.len(), in_a_row(&rows), phase_name(phase));
    Ok(Some(format!("this makes all {count} instruments{of} {phase}: {symbols}")))
}

/// Returns the effect on all instruments, or those of a group, of a change for later that ends
/// trading, or of the removal of filed changes.
fn scheduled(args: &AdminArgs, of: &ScheduleArgs) -> anyhow::Result<Option<String>> {
    if many::group_of(&of.instrument)?.is_none() {
        return Ok(None);
    }
    let names = [of.instrument.clone()];
    let (Some(phase), Some(at)) = (of.phase, &of.at) else {
        if plant::is(Plant::ClearUnasked) {
            return Ok(None);
        }
        return Ok(Some(format!("this forgets {}", forgotten(args, &names)?)));
    };
    let is_relative = at.starts_with('+');
    let at = utc(super::time_of(at)?);
    let when = if is_relative { format!("about {at}") } else { at };
    let effect = stopped(args, &of.instrument, phase)?;
    let effect = effect.filter(|_| !plant::is(Plant::ScheduledStopUnasked));
    Ok(effect.map(|effect| format!("{effect}, at {when}")))
}

/// Returns the effect of a calendar that replaces what is filed.
fn replaced(args: &AdminArgs, of: &CalendarArgs) -> anyhow::Result<Option<String>> {
    if !of.replace || of.dry_run || plant::is(Plant::ReplaceUnasked) {
        return Ok(None);
    }
    let plan = filing::plan_of(of)?;
    let changes = &plan.changes;
    let filed = match (changes.first(), changes.last()) {
        (Some(first), Some(last)) => {
            let (first, last) = (utc(first.at), utc(last.at));
            format!("files {} for each, from {first} to {last}", changes.len())
        }
        _ => "files none".to_owned(),
    };
    let forgotten = forgotten(args, &of.instruments)?;
    let warning = plan.left_open(&many::named(args, &of.instruments, &[])?.instruments)?;
    let warning = warning.map_or_else(String::new, |warning| format!(" ({warning})"));
    Ok(Some(format!("this forgets {forgotten}; then it {filed}{warning}")))
}

/// Returns the filed changes that are removed with those of the named instruments: of an instrument
/// or a group its own, of all instruments each.
fn forgotten(args: &AdminArgs, names: &[String]) -> anyhow::Result<String> {
    let page = args.login.endpoint.status()?;
    let filed = many::filed_count(&page).filter(|_| !plant::is(Plant::ForgottenUncounted));
    let (count, symbols) = symbols_of(args, names)?;
    if names.iter().any(|name| name == "all") {
        // An older node does not report the number.
        let filed = filed.map_or_else(String::new, |filed| format!("{filed} "));
        return Ok(format!(
            "all {filed}filed changes of phase of all {count} instruments: {symbols}"
        ));
    }
    let filed =
        filed.map_or_else(String::new, |filed| format!(", of the {filed} that the node has"));
    let are_groups = names.iter().any(|name| name.starts_with("group:"));
    let (of, itself, others) = match (names, are_groups) {
        ([_], false) => (symbols, "itself", "those of all and of its group"),
        ([name], true) => (name.clone(), "itself", "those of all and of single instruments"),
        (_, false) => (symbols, "themselves", "those of all and of groups"),
        (_, true) => (names.join(", "), "themselves", "those of all and of others"),
    };
    Ok(format!("the changes of phase filed for {of} {itself}{filed} ({others} stay)"))
}

/// Returns the number of the named instruments, and their symbols.
fn symbols_of(args: &AdminArgs, names: &[String]) -> anyhow::Result<(usize, String)> {
    let rows = many::named(args, names, &[])?.instruments;
    Ok((rows.len(), in_a_row(&rows)))
}

fn in_a_row(rows: &[InstrumentStatus]) -> String {
    let symbols: Vec<_> = rows.iter().map(|row| row.symbol.as_str()).collect();
    symbols.join(", ")
}

/// Returns a trade in words, or the reason for which its reports are not there. A bust does not
/// need them: the node may take a trade back whose reports are past their retention.
fn traded(args: &AdminArgs, partition: Option<u16>, match_id: u64) -> String {
    match history::trade(&args.login, partition.map(PartitionId), MatchId(match_id)) {
        Ok(Some(trade)) => trade,
        Ok(None) => "of which the node retains no report".to_owned(),
        Err(error) => format!("whose reports cannot be read ({error:#})"),
    }
}

fn cancelled(of: &CancelArgs) -> String {
    let scope = name_of(&of.scope);
    let only = match (&of.instrument, of.scope) {
        (Some(instrument), _) => format!("in instrument {instrument}"),
        (None, MassCancelScope::Instrument) => "of all firms".to_owned(),
        (None, _) => within(of.partition),
    };
    format!("this cancels all live orders of {scope} {}, {only}", of.of)
}

fn within(partition: Option<u16>) -> String {
    partition.map_or_else(|| "in all partitions".to_owned(), |id| format!("in partition {id}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    use clap::Parser as _;
    use weir_client::clock::unix_time;
    use weir_runtime::civil::Date;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: AdminArgs,
    }

    /// Returns the status page of a node with two instruments, the second in group 7, and five
    /// filed changes.
    fn page() -> serde_json::Value {
        let instrument = |id: u32| {
            let group = if id == 2 { 7 } else { 0 };
            serde_json::json!({
                "id": id, "symbol": format!("WEIR{id}"), "price_exponent": -2, "partition": 1,
                "group": group,
            })
        };
        serde_json::json!({
            "instruments": [instrument(1), instrument(2)],
            "partitions": [{ "id": 0, "filed_changes": 9 }, { "id": 1, "filed_changes": 5 }],
        })
    }

    fn serve_page() -> SocketAddr {
        serve(&page(), usize::MAX)
    }

    /// Serves a status page so many times.
    fn serve(page: &serde_json::Value, times: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body = page.to_string();
        std::thread::spawn(move || {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            for stream in listener.incoming().take(times) {
                let mut stream = stream.unwrap();
                let _asked = stream.read(&mut [0; 1_024]).unwrap();
                stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
            }
        });
        address
    }

    /// Returns the effect of a command of which consent is asked.
    fn effect_of(http: SocketAddr, words: &[&str]) -> Option<String> {
        let (http, key) = (http.to_string(), "00".repeat(32));
        // Nothing listens on the node's own address.
        let login = ["admin", "--http", &http, "--node", "127.0.0.1:1", "--key", &key];
        let line = Line::try_parse_from(login.iter().chain(words)).unwrap();
        effect(&line.args).unwrap()
    }

    /// Returns the file of a calendar with two changes on each Monday but one around today: no day
    /// of it is open now.
    fn calendar() -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let today = Date::at(unix_time(), "Z".parse().unwrap());
        let [before, after] = [today.minus(1), today.plus(1)];
        let calendar = format!(
            "utc_offset = '+00:00'\ndays = ['mon']\n\
             holidays = ['{before}', '{today}', '{after}']\n\
             phase = [{{ at = '08:00', name = 'continuous' }}, {{ at = '17:30', name = 'closed' \
             }}]\n"
        );
        std::fs::write(file.path(), calendar).unwrap();
        file
    }

    #[test]
    fn a_later_stop_of_all_and_the_removal_of_filed_changes_are_asked_about() {
        let page = serve_page();
        let file = calendar();
        let file = file.path().to_str().unwrap();
        let of_calendar = ["calendar", file, "--days", "7", "--from", "2100-01-04"];
        let replace = [&of_calendar[..], &["--replace"]].concat();
        let at = ["--at", "2100-01-04T08:00:00Z"];
        let until_then = "at 2100-01-04T08:00:00Z";
        let forgets =
            "this forgets all 5 filed changes of phase of all 2 instruments: WEIR1, WEIR2";
        for (words, want) in [
            (
                [&["schedule", "all", "halted"][..], &at].concat(),
                format!("this makes all 2 instruments halted: WEIR1, WEIR2, {until_then}"),
            ),
            (
                [&["schedule", "all", "closed"][..], &at].concat(),
                format!("this makes all 2 instruments closed: WEIR1, WEIR2, {until_then}"),
            ),
            (vec!["schedule", "all", "--clear"], forgets.to_owned()),
            (replace.clone(), format!("{forgets}; then it files 2 for each, from 2100-01-04T08")),
        ] {
            let effect = effect_of(page, &words).expect("it is asked about");
            assert!(effect.starts_with(&want), "{words:?}: {effect}");
        }
        for words in [
            [&["schedule", "all", "continuous"][..], &at].concat(),
            [&["schedule", "WEIR1", "halted"][..], &at].concat(),
            vec!["schedule", "WEIR1", "--clear"],
            of_calendar.to_vec(),
            [&replace[..], &["--dry-run"]].concat(),
        ] {
            assert_eq!(effect_of(page, &words), None, "{words:?}");
        }
    }

    /// A calendar of one instrument said that it forgets all that is filed for it.
    #[test]
    fn commands_about_groups_and_single_instruments_say_the_changes_that_stay() {
        let page = serve_page();
        let file = calendar();
        let file = file.path().to_str().unwrap();
        let replace = |of| {
            let dates = ["--days", "7", "--from", "2100-01-04"];
            [&["calendar", file, "--replace", "--instruments", of][..], &dates].concat()
        };
        let at = "2100-01-04T08:00:00Z";
        let stops = "this makes all 1 instruments of group 7 halted: WEIR2";
        let of_group = "this forgets the changes of phase filed for group:7 itself, of the 5 that \
                        the node has (those of all and of single instruments stay)";
        let of_one = "this forgets the changes of phase filed for WEIR1 itself, of the 5 that the \
                      node has (those of all and of its group stay); then it files 2 for each";
        for (words, want) in [
            (vec!["halt", "group:7"], stops.to_owned()),
            (vec!["phase", "group:7", "halted"], stops.to_owned()),
            (
                vec!["phase", "group:7", "closed"],
                "this makes all 1 instruments of group 7 closed: WEIR2".to_owned(),
            ),
            (vec!["schedule", "group:7", "halted", "--at", at], format!("{stops}, at {at}")),
            (vec!["schedule", "group:7", "--clear"], of_group.to_owned()),
            (replace("group:7"), format!("{of_group}; then it files 2 for each, from {at}")),
            (replace("WEIR1"), of_one.to_owned()),
            (replace("1"), of_one.to_owned()),
            (
                replace("WEIR1,WEIR2"),
                "this forgets the changes of phase filed for WEIR1, WEIR2 themselves, of the 5 \
                 that the node has (those of all and of groups stay)"
                    .to_owned(),
            ),
            (
                replace("group:7,WEIR1"),
                "this forgets the changes of phase filed for group:7, WEIR1 themselves, of the 5 \
                 that the node has (those of all and of others stay)"
                    .to_owned(),
            ),
        ] {
            let effect = effect_of(page, &words).expect("it is asked about");
            assert!(effect.starts_with(&want), "{words:?}: {effect}");
        }
        for words in [
            vec!["phase", "group:7", "continuous"],
            vec!["resume", "group:7"],
            vec!["schedule", "group:7", "continuous", "--at", at],
            vec!["halt", "WEIR1"],
        ] {
            assert_eq!(effect_of(page, &words), None, "{words:?}");
        }
    }

    #[test]
    fn a_halt_is_asked_about_without_the_status_page() {
        let nobody = "127.0.0.1:1".parse().unwrap();
        for (name, want) in [
            ("all", "this makes all instruments halted (no status page at 127.0.0.1:1"),
            ("group:7", "this makes all instruments of group 7 halted (no status page at "),
        ] {
            let effect = effect_of(nobody, &["halt", name]).expect("it is asked about");
            assert!(effect.starts_with(want), "{effect}");
        }
        // The page fails behind the first look, at which it has no instruments yet.
        let empty = serve(&serde_json::json!({ "instruments": [] }), 1);
        let effect = effect_of(empty, &["halt", "all"]).expect("it is asked about");
        assert!(effect.starts_with("this makes all instruments halted ("), "{effect}");
        // One look is enough.
        let effect = effect_of(serve(&page(), 1), &["halt", "all"]).expect("it is asked about");
        assert_eq!(effect, "this makes all 2 instruments halted: WEIR1, WEIR2");
    }

    #[test]
    fn a_bust_says_its_trade_or_the_reason_why_it_cannot() {
        let effect = effect_of(serve_page(), &["bust", "7"]).expect("it is asked about");
        let want = "this takes trade 7 back, whose reports cannot be read (";
        assert!(effect.starts_with(want), "{effect}");
        assert!(!effect.contains("debt"), "{effect}");
        let forced = effect_of(serve_page(), &["bust", "7", "--force"]).expect("it is asked about");
        let debt = "; an account that has spent them may be in debt behind it";
        assert!(forced.starts_with(want) && forced.ends_with(debt), "{forced}");
    }

    #[cfg(feature = "planted")]
    #[test]
    fn every_planted_bug_of_consents_is_found() {
        let tests = [
            a_later_stop_of_all_and_the_removal_of_filed_changes_are_asked_about,
            a_bust_says_its_trade_or_the_reason_why_it_cannot,
        ];
        // These are found by the tests of certificates and listings.
        let others = [Plant::AuthorityReplaced, Plant::ReplayUnbounded, Plant::UnfitUntold];
        for plant in Plant::ALL.iter().copied().filter(|plant| !others.contains(plant)) {
            plant::set(Some(plant));
            let is_found = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
            plant::set(None);
            assert!(is_found, "{plant:?}");
        }
    }

    #[test]
    fn only_a_yes_is_consent() {
        for (answer, want) in [
            ("y\n", true),
            ("Yes\n", true),
            ("", false),
            ("\n", false),
            ("no\n", false),
            ("yy", false),
        ] {
            assert_eq!(ask(&mut answer.as_bytes()).is_ok(), want, "{answer:?}");
        }
    }
}
