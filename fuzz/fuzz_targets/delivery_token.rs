//! Arbitrary bytes as a delivery token, and a real one with mutations.
//!
//! Checks that a token opens to its sealed content, for its own scope only, and that a token with
//! any mutated byte does not open.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_delivery::{
    Entitlement, Filter, NonceCounter, Scope, SourceCursor, TokenKey, TokenSealer, Visibility,
};
use weir_fuzz::Recipe;
use weir_types::{ChangeId, Epoch, InstrumentId, Nanos, PartitionId, Rec, Seq, SourceLog};

fuzz_target!(|bytes: &[u8]| {
    let mut sealer = TokenSealer::new(TokenKey::new(1, &[7; 32]), NonceCounter::new(1, Nanos(1)));
    let mut out = Vec::new();
    let _ = sealer.open(&scope(0), bytes, &mut out);
    let _ = sealer.peek(bytes);

    let mut recipe = Recipe::new(bytes);
    let (at, flip, instrument) = (recipe.short(), recipe.byte(), u32::from(recipe.byte()));
    let sources: Vec<SourceCursor> = (0..recipe.byte() % 8)
        .map(|source| {
            let (source, epoch) = (PartitionId(source.into()), Epoch(recipe.short().into()));
            let change_id = ChangeId { seq: Seq(recipe.number()), rec: Rec(recipe.number()) };
            let at = SourceCursor::new(source, epoch, change_id);
            let seen = Seq(change_id.seq.0.saturating_add(recipe.short().into()));
            let since = ChangeId { seq: Seq(recipe.number()), rec: Rec(recipe.number()) };
            SourceCursor { seen, since, log: SourceLog(recipe.number()), ..at }
        })
        .collect();
    let mut token = Vec::new();
    sealer.seal(&scope(instrument), &sources, &mut token);
    out.clear();
    assert_eq!(sealer.open(&scope(instrument), &token, &mut out), Ok(()));
    assert_eq!(out, sources, "a token opens to something else");
    assert!(sealer.open(&scope(instrument + 1), &token, &mut Vec::new()).is_err());

    let at = usize::from(at) % token.len();
    token[at] ^= flip;
    let opened = sealer.open(&scope(instrument), &token, &mut Vec::new());
    assert_eq!(opened.is_ok(), flip == 0, "byte {at} changed: {opened:?}");
    let _ = sealer.peek(&token);
});

fn scope(instrument: u32) -> Scope {
    let filter = Filter { instrument_id: InstrumentId(instrument), ..Filter::default() };
    let entitlement = Entitlement { visibility: Visibility::All, version: 1 };
    Scope::new(filter, entitlement).expect("who sees all may filter by anything")
}
