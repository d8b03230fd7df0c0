//! Symbols of instruments: a definition is refused exactly where a scan of all instruments finds
//! the symbol with another one.

mod support;

use proptest::prelude::*;
use support::*;
use weir_engine::{EngineConfig, EngineLimits};
use weir_types::{InstrumentId, PartitionId, Symbol};
use weir_wire::Definition;
use weir_wire::reference::{DefineInstrument, field_bit};

/// A definition of instrument `id` with a symbol, complete or as a change of the symbol alone.
/// Every third instrument is another partition's.
fn named(id: u32, symbol: u8, is_change: bool) -> DefineInstrument {
    let partition_id = if id.is_multiple_of(3) { PartitionId(2) } else { HERE };
    DefineInstrument {
        symbol: Symbol::new(&format!("S{symbol}")).expect("it is short"),
        fields: if is_change { field_bit::<DefineInstrument>("symbol") } else { 0 },
        ..instrument(InstrumentId(id), partition_id)
    }
}

/// Small tables, which each restart makes anew.
const SMALL: EngineLimits = EngineLimits {
    accounts_max: 1,
    sessions_max: 1,
    firms_max: 1,
    instruments_max: 6,
    orders_max: 1,
    positions_max: 1,
    trades_max: 1,
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_symbol_is_taken_where_a_scan_of_all_instruments_finds_it(
        steps in proptest::collection::vec((1_u32..8, 0_u8..6, any::<bool>(), 0_u8..8), 1..80),
    ) {
        let mut desk = Desk::with_twin(EngineConfig::new(HERE).with_limits(SMALL));
        for (id, symbol, is_change, restart) in steps {
            let d = named(id, symbol, is_change);
            let all: Vec<_> = desk.engine.instruments().map(|of| of.definition).collect();
            let is_known = all.iter().any(|of| of.instrument_id == d.instrument_id);
            let is_taken = (all.iter())
                .any(|of| of.symbol == d.symbol && of.instrument_id != d.instrument_id);
            let has_room = is_known || all.len() < SMALL.instruments_max as usize && !is_change;
            let refused = desk.engine.refused_import_count();
            desk.import(Definition::DefineInstrument(d));
            let is_refused = desk.engine.refused_import_count() > refused;
            prop_assert_eq!(is_refused, is_taken || !has_room, "{:?} behind {:?}", d, all);
            if restart == 0 {
                desk.restart();
            }
        }
    }
}
