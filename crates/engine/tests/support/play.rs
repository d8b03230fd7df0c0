//! The same desk on both engines, in the notation of `steps` and some additions for
//! `docs/matching.md`: `set WHAT=NUMBER…` (redefines the instrument), `fund poor [cash=N]
//! [lots=N]`, `rate N` (new orders per second), `kill WHO` and `revive WHO`, `lost` (Alice's
//! connection), `book`.

use weir_engine::script::{Duel, DuelSetting, StepLimits};

use super::*;

/// Both engines with the same desk; their events are compared after every command.
pub struct Pair {
    duel: Duel,
    request_no: u64,
    control_position: u64,
    /// The lower bound of log time, which advances by one per command.
    clock: u64,
}

impl Pair {
    pub fn open() -> Pair {
        let steps = StepLimits::OF_PARTITION;
        let duel = Duel::new(DuelSetting { partition_id: HERE, steps });
        let mut pair = Pair { duel, request_no: 0, control_position: 0, clock: 0 };
        for definition in definitions() {
            pair.import(definition);
        }
        for account in [RICH, OTHER] {
            pair.ask(Request::Transfer(transfer(account, 1, 1_000_000_000, 1_000_000)));
        }
        pair
    }

    fn apply(&mut self, command: &Command) -> Vec<String> {
        let time = Nanos(self.clock.max(1_001 + self.duel.fast().position().0));
        let same = self.duel.apply(time, command);
        assert_eq!(same, Ok(()), "{command:?}");
        let is_told = |event: &&Event| !matches!(event, Event::Plain(PlainEvent::Checkpoint(_)));
        self.duel.events().iter().filter(is_told).map(steps::tell).collect()
    }

    fn ask(&mut self, request: Request) -> Vec<String> {
        self.request_no += 1;
        self.apply(&Command::Request(numbered(request, self.request_no)))
    }

    fn import(&mut self, definition: Definition) -> Vec<String> {
        self.control_position += 1;
        self.apply(&Command::Import(Position(self.control_position), definition))
    }

    /// Executes a line and returns its events.
    pub fn play(&mut self, line: &str) -> Vec<String> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let is_bob = words[0] == "bob";
        if is_bob {
            words.remove(0);
        }
        match words[0] {
            "at" => {
                self.clock = words[1].parse().expect("a time");
                Vec::new()
            }
            "tick" => self.apply(&Command::Tick),
            "set" => self.define(&words[1..]),
            "rate" => self.bound_rate(words[1].parse().expect("a rate")),
            "book" => self.book(),
            "lost" => self.apply(&Command::SessionLost(SessionLost {
                session_id: ALICE,
                cancel_on_disconnect: Switch::On,
            })),
            "fund" => self.ask(fund(&words[2..], self.request_no)),
            "kill" => {
                let cancels = steps::switch(words.get(2) == Some(&"cancel"));
                self.ask(kill(words[1], Switch::On, cancels))
            }
            "revive" => self.ask(kill(words[1], Switch::Off, Switch::Off)),
            _ => self.ask(steps::request(&words, if is_bob { BOB } else { ALICE })),
        }
    }

    fn define(&mut self, changes: &[&str]) -> Vec<String> {
        let mut d = instrument(TULIP, HERE);
        for (what, number) in changes.iter().map(|change| assignment(change)) {
            match what {
                "tick" => d.tick_size = Price(number),
                "lot" => d.lot_size = Qty(number as u64),
                "min" => d.price_min = Price(number),
                "max" => d.price_max = Price(number),
                "reference" => d.reference_price = Price(number),
                "static" => d.static_collar = number as u32,
                "dynamic" => d.dynamic_collar = number as u32,
                "call" => d.volatility_call = Nanos(number as u64),
                other => panic!("nothing of an instrument: {other}"),
            }
        }
        self.import(Definition::DefineInstrument(d));
        Vec::new()
    }

    fn bound_rate(&mut self, order_rate_max: u32) -> Vec<String> {
        let Definition::DefineSession(alice) = session(ALICE, 1, Role::Trader) else {
            unreachable!("a session was asked for")
        };
        self.import(Definition::DefineSession(DefineSession { order_rate_max, ..alice }));
        Vec::new()
    }

    /// Returns the levels of both sides, best first.
    fn book(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (side, word) in [(Side::Buy, "bid"), (Side::Sell, "ask")] {
            let mut levels = Vec::new();
            self.duel.fast().book_levels(TULIP, side, usize::MAX, &mut levels);
            told.extend(levels.iter().map(|level| format!("{word} {}@{}", level.qty, level.price)));
        }
        told
    }
}

fn assignment(text: &str) -> (&str, i64) {
    let (what, number) = text.split_once('=').expect("WHAT=NUMBER");
    (what, number.parse().expect("a number"))
}

fn fund(what: &[&str], id: u64) -> Request {
    let of = |word: &str| what.iter().map(|text| assignment(text)).find(|(what, _)| *what == word);
    let amount = |word: &str| of(word).map_or(0, |(_, number)| number);
    // Request numbers serve as transfer numbers: those of the desk's opening are used up.
    Request::Transfer(transfer(POOR, 1 + id, amount("cash").into(), amount("lots")))
}

fn kill(who: &str, switch: Switch, cancel_orders: Switch) -> Request {
    let (scope, id) = match who {
        "alice" => (KillScope::Session, ALICE.0),
        "poor" => (KillScope::Account, POOR.0),
        "firm" => (KillScope::Firm, 1),
        "all" => (KillScope::All, 0),
        other => panic!("nobody to stop: {other}"),
    };
    Request::KillSwitch(KillSwitch {
        request_no: RequestNo(0),
        session_id: OPERATOR,
        id,
        partition_id: HERE,
        scope,
        switch,
        cancel_orders,
    })
}
