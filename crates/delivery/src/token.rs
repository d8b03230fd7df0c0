//! The token: a reader's position, sealed so that a client can carry it but not read or make it.
//!
//! ```text
//! 0   version, 1 byte
//! 1   key id, 1 byte
//! 2   source count, 1 byte
//! 3   scope check, 1 byte
//! 4   nonce, 12 bytes
//! 16  tag, 16 bytes
//! 32  each source, 50 bytes, encrypted, little-endian:
//!     source u16, epoch u32, seq u64, rec u64, distance of `seen` ahead of seq u32,
//!     `since`: seq u64, rec u64, the source's log u64
//! ```
//! Versions 2 and 3 are still read: their sources have 26 bytes and end before `since`, or 34 and
//! end before its rec.
//!
//! ChaCha20-Poly1305 (RFC 8439) seals it; the first four bytes and the reader's scope are its
//! associated data, so that a token is valid only for its own filter and entitlement. The scope
//! check is a byte computed from the scope alone: it only selects one of two reasons for a broken
//! seal. It protects nothing and does not need to.
//!
//! A nonce is never used twice with a key: a [`NonceCounter`] is neither cloned nor started again
//! at an earlier time.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};
use weir_types::{ChangeId, Epoch, Nanos, PartitionId, Reason, Rec, Seq, SourceLog};

use crate::filter::Scope;
use crate::plant::{self, Plant};

/// The version that this crate writes.
pub const TOKEN_VERSION: u8 = 4;
/// The version without a log, whose `since` has no rec, which is read too.
const VERSION_OF_SEQS: u8 = 3;
/// The version without a log and `since`, which is read too.
const VERSION_WITHOUT_SINCE: u8 = 2;
/// Bytes of a token without its sources.
pub const TOKEN_HEAD_LEN: usize = 32;
/// Bytes of each source.
pub const TOKEN_SOURCE_LEN: usize = 50;
/// Bytes of each source in a token whose `since` has no rec.
const SOURCE_LEN_OF_SEQS: usize = 34;
/// Bytes of each source in a token without `since`.
const SOURCE_LEN_WITHOUT_SINCE: usize = 26;
/// The place of a source's log.
const LOG_AT: usize = 42;
/// The most sources of a token.
pub const TOKEN_SOURCES_MAX: usize = 64;

const NONCE_AT: usize = 4;
const TAG_AT: usize = 16;

/// A reader's cursor in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCursor {
    /// The source.
    pub source: PartitionId,
    /// The source's epoch in which the change id was reached.
    pub epoch: Epoch,
    /// The change id up to which the reader has the source.
    pub change_id: ChangeId,
    /// The latest change that the store had when it made any page on the way here; at least the
    /// change id's own. A page has each order's state of that time and leaves out earlier ones: if
    /// the epoch turns out to have ended before `seen`, a state that was left out may be the valid
    /// one.
    pub seen: Seq,
    /// The newest change of the store when the reader began without a token, or that of the store
    /// which is furthest behind among those that it has read from since; the start if unknown. The
    /// reader has seen no order live that ended there or earlier.
    pub since: ChangeId,
    /// The log of the source whose changes the reader has, where it is known.
    pub log: SourceLog,
}

impl SourceCursor {
    /// Returns a cursor whose reader has seen nothing beyond it.
    #[must_use]
    pub const fn new(source: PartitionId, epoch: Epoch, change_id: ChangeId) -> SourceCursor {
        let (seen, since, log) = (change_id.seq, ChangeId::START, SourceLog::NONE);
        SourceCursor { source, epoch, change_id, seen, since, log }
    }

    /// True when the reader's changes are known to be of another log than `log`.
    #[must_use]
    pub fn is_of_other_log(&self, log: SourceLog) -> bool {
        is_other_log(self.log, log)
    }

    /// Returns the change id that the epoch must have reached for the reader to go on in a later
    /// epoch. It is at least `since`: an order that ended in a void change may still be live.
    #[must_use]
    pub fn reach(&self) -> ChangeId {
        self.change_id.max(ChangeId::new(self.seen, Rec(0))).max(self.since)
    }
}

/// True when both logs are known and differ.
pub(crate) fn is_other_log(one: SourceLog, other: SourceLog) -> bool {
    let is_known = !one.is_none() && !other.is_none();
    (is_known || plant::is(Plant::NoLogIsAnother)) && one != other
}

/// The head of a token, as [`TokenSealer::peek_head`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenHead {
    /// The layout's version.
    pub version: u8,
    /// The key that sealed it.
    pub key_id: u8,
    /// A byte computed from its filter and rights.
    pub scope_check: u8,
    /// The number of its maker among the makers that share the key.
    pub maker: u32,
    /// The maker's count, which began at the maker's start in nanoseconds since 1970.
    pub count: u64,
}

/// A key that seals tokens. Its bytes are never shown.
#[derive(Clone)]
pub struct TokenKey {
    id: u8,
    cipher: ChaCha20Poly1305,
}

impl core::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TokenKey({})", self.id)
    }
}

impl TokenKey {
    /// Returns the key with this identity and these bytes.
    #[must_use]
    pub fn new(id: u8, bytes: &[u8; 32]) -> TokenKey {
        TokenKey { id, cipher: ChaCha20Poly1305::new(bytes.into()) }
    }
}

/// Nonces that no other token has: the maker's number, and a count that begins at the time when the
/// maker started.
///
/// They are unique as long as the makers of one key have different numbers, no maker makes more
/// than one token per nanosecond on average, and a maker's clock never starts it earlier than its
/// last start.
#[derive(Debug)]
pub struct NonceCounter {
    maker: u32,
    count: u64,
}

impl NonceCounter {
    /// Returns the nonces of maker number `maker`, started at `now` since the Unix epoch.
    #[must_use]
    pub fn new(maker: u32, now: Nanos) -> NonceCounter {
        NonceCounter { maker, count: now.0 }
    }

    fn next(&mut self) -> [u8; 12] {
        self.count += 1;
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.maker.to_le_bytes());
        nonce[4..].copy_from_slice(&self.count.to_le_bytes());
        nonce
    }
}

/// The reason that bytes are not a valid token here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too short, too long, or not as long as its source count says.
    #[error("{0} bytes are not a token")]
    Malformed(usize),
    /// It has a version that is not supported.
    #[error("token version {0} is not read here")]
    UnknownVersion(u8),
    /// It was sealed with an unknown key.
    #[error("token key {0} is not known here")]
    UnknownKey(u8),
    /// It was taken with another filter or entitlement, according to its scope check.
    #[error("the token was taken with another filter or entitlement")]
    OtherScope,
    /// The seal does not hold: damaged or forged, or, once in 256 times, of another scope.
    #[error("the token's seal does not hold")]
    BadSeal,
    /// It names a source twice or one that is not served here.
    #[error("the token names source {0}, which has no place here")]
    Source(PartitionId),
}

impl TokenError {
    /// Returns the reason code of the wire format.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            TokenError::OtherScope => Reason::ResyncFilter,
            _ => Reason::ResyncToken,
        }
    }
}

/// The keys of a process: the first seals, all open. Clones share the keys, so that replacing them
/// replaces them for all sealers. If keys have the same identity, the seal shows which one applies.
#[derive(Clone, Debug)]
pub struct TokenKeys(Arc<RwLock<Vec<TokenKey>>>);

impl TokenKeys {
    /// Returns keys of which `key` seals, and all open.
    #[must_use]
    pub fn new(key: TokenKey, others: Vec<TokenKey>) -> TokenKeys {
        let keys = TokenKeys(Arc::default());
        keys.replace(key, others);
        keys
    }

    /// Replaces the keys, from the next token on.
    pub fn replace(&self, key: TokenKey, others: Vec<TokenKey>) {
        let keys = std::iter::once(key).chain(others).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Locks the current keys for reading. A writer holds the lock only for a move, so this does
    /// not wait.
    fn read(&self) -> RwLockReadGuard<'_, Vec<TokenKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seals tokens with its first key and opens those of all its keys.
#[derive(Debug)]
pub struct TokenSealer {
    keys: TokenKeys,
    nonces: NonceCounter,
}

impl TokenSealer {
    /// Returns a sealer with the single key `key`.
    #[must_use]
    pub fn new(key: TokenKey, nonces: NonceCounter) -> TokenSealer {
        TokenSealer::of(&TokenKeys::new(key, Vec::new()), nonces)
    }

    /// Returns a sealer that uses these keys as they are at the time of each call.
    #[must_use]
    pub fn of(keys: &TokenKeys, nonces: NonceCounter) -> TokenSealer {
        TokenSealer { keys: keys.clone(), nonces }
    }

    /// Appends the token of `sources` for readers of `scope`.
    ///
    /// # Panics
    /// If there are more than [`TOKEN_SOURCES_MAX`] sources.
    pub fn seal(&mut self, scope: &Scope, sources: &[SourceCursor], out: &mut Vec<u8>) {
        assert!(sources.len() <= TOKEN_SOURCES_MAX, "{} sources", sources.len());
        let source_count = u8::try_from(sources.len()).expect("at most 64");
        let nonce = self.nonces.next();
        let keys = self.keys.read();
        let key = &keys[0];
        let start = out.len();
        out.extend_from_slice(&[TOKEN_VERSION, key.id, source_count, scope_check(scope)]);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&[0; TOKEN_HEAD_LEN - TAG_AT]);
        sources.iter().for_each(|source| put_source(source, out));
        let (head, body) = out[start..].split_at_mut(TOKEN_HEAD_LEN);
        let aad = associated_data(&head[..NONCE_AT], scope);
        let tag = key
            .cipher
            .encrypt_inout_detached(&Nonce::from(nonce), &aad, body.into())
            .expect("a token is far shorter than the cipher's limit");
        head[TAG_AT..].copy_from_slice(&tag);
    }

    /// Appends the sources of a token to `out`; appends nothing on failure.
    ///
    /// # Errors
    /// [`TokenError`], with the reason.
    pub fn open(
        &self,
        scope: &Scope,
        token: &[u8],
        out: &mut Vec<SourceCursor>,
    ) -> Result<(), TokenError> {
        let keys = self.keys.read();
        let fitting = keys_of(&keys, token)?;
        let (head, sealed) = token.split_at(TOKEN_HEAD_LEN);
        if head[3] != scope_check(scope) {
            return Err(TokenError::OtherScope);
        }
        let mut buffer = [0; TOKEN_SOURCE_LEN * TOKEN_SOURCES_MAX];
        let body = &mut buffer[..sealed.len()];
        let aad = associated_data(&head[..NONCE_AT], scope);
        let (nonce, tag) = nonce_and_tag(head);
        let opens = |key: &TokenKey| {
            body.copy_from_slice(sealed);
            let body = (&mut *body).into();
            key.cipher.decrypt_inout_detached(&nonce, &aad, body, &tag).is_ok()
        };
        if !fitting.into_iter().any(opens) {
            return Err(TokenError::BadSeal);
        }
        out.extend(body.chunks_exact(source_len(head[0])?).map(take_source));
        Ok(())
    }

    /// Returns the fields of a token's head without checking its seal, as [`TokenSealer::peek`]
    /// does.
    ///
    /// # Errors
    /// As [`TokenSealer::peek`].
    pub fn peek_head(&self, token: &[u8]) -> Result<TokenHead, TokenError> {
        keys_of(&self.keys.read(), token).map(drop)?;
        let [version, key_id, _, scope_check, ..] = *token else {
            return Err(TokenError::Malformed(token.len()));
        };
        let (nonce, _) = nonce_and_tag(&token[..TOKEN_HEAD_LEN]);
        let (maker, count) = nonce.split_at(4);
        let maker = u32::from_le_bytes(maker.try_into().expect("four bytes"));
        let count = u64::from_le_bytes(count.try_into().expect("eight bytes"));
        Ok(TokenHead { version, key_id, scope_check, maker, count })
    }

    /// Decrypts a token without checking its seal: for people who hold the key, never for serving.
    ///
    /// # Errors
    /// [`TokenError::Malformed`], [`TokenError::UnknownVersion`], [`TokenError::UnknownKey`].
    pub fn peek(&self, token: &[u8]) -> Result<Vec<SourceCursor>, TokenError> {
        let keys = self.keys.read();
        let key = keys_of(&keys, token)?.next().expect("there is one");
        let (head, sealed) = token.split_at(TOKEN_HEAD_LEN);
        let mut body = sealed.to_vec();
        let (nonce, _) = nonce_and_tag(head);
        // The cipher is its own inverse: encrypting the sealed bytes again decrypts them.
        key.cipher
            .encrypt_inout_detached(&nonce, &[], body.as_mut_slice().into())
            .expect("a token is far shorter than the cipher's limit");
        Ok(body.chunks_exact(source_len(head[0])?).map(take_source).collect())
    }
}

/// Returns the length of a source in a token of this version.
fn source_len(version: u8) -> Result<usize, TokenError> {
    match version {
        TOKEN_VERSION => Ok(TOKEN_SOURCE_LEN),
        VERSION_OF_SEQS => Ok(SOURCE_LEN_OF_SEQS),
        VERSION_WITHOUT_SINCE => Ok(SOURCE_LEN_WITHOUT_SINCE),
        other => Err(TokenError::UnknownVersion(other)),
    }
}

/// Checks a token's form and returns the keys that may have sealed it, at least one.
fn keys_of<'a>(
    keys: &'a [TokenKey],
    token: &[u8],
) -> Result<impl Iterator<Item = &'a TokenKey>, TokenError> {
    let malformed = TokenError::Malformed(token.len());
    let [version, id, source_count, ..] = *token else { return Err(malformed) };
    let source_len = source_len(version)?;
    let source_count = usize::from(source_count);
    let len = TOKEN_HEAD_LEN + source_len * source_count;
    if source_count > TOKEN_SOURCES_MAX || token.len() != len {
        return Err(malformed);
    }
    let mut fitting = keys.iter().filter(move |key| key.id == id).peekable();
    if fitting.peek().is_none() {
        return Err(TokenError::UnknownKey(id));
    }
    Ok(fitting)
}

fn nonce_and_tag(head: &[u8]) -> (Nonce, Tag) {
    let nonce: [u8; 12] = *head[NONCE_AT..].first_chunk().expect("a head has 32 bytes");
    let tag: [u8; 16] = *head[TAG_AT..].first_chunk().expect("a head has 32 bytes");
    (Nonce::from(nonce), Tag::from(tag))
}

fn associated_data(head: &[u8], scope: &Scope) -> [u8; NONCE_AT + crate::filter::SCOPE_LEN] {
    let mut bytes = [0; NONCE_AT + crate::filter::SCOPE_LEN];
    bytes[..NONCE_AT].copy_from_slice(head);
    bytes[NONCE_AT..].copy_from_slice(&scope.to_bytes());
    bytes
}

/// Returns a byte in which most scopes differ: FNV-1a over the scope's bytes, folded.
fn scope_check(scope: &Scope) -> u8 {
    let hash = scope
        .to_bytes()
        .iter()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.to_le_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

fn put_source(source: &SourceCursor, out: &mut Vec<u8>) {
    out.extend_from_slice(&source.source.0.to_le_bytes());
    out.extend_from_slice(&source.epoch.0.to_le_bytes());
    out.extend_from_slice(&source.change_id.seq.0.to_le_bytes());
    out.extend_from_slice(&source.change_id.rec.0.to_le_bytes());
    let ahead = source.seen.0.saturating_sub(source.change_id.seq.0);
    out.extend_from_slice(&u32::try_from(ahead).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&source.since.seq.0.to_le_bytes());
    out.extend_from_slice(&source.since.rec.0.to_le_bytes());
    out.extend_from_slice(&source.log.0.to_le_bytes());
}

fn take_source(bytes: &[u8]) -> SourceCursor {
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("a whole source"));
    // Versions before end earlier.
    let later_word = |at: usize| if bytes.len() > at { word(at) } else { 0 };
    let half = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    // A distance that does not fit counts as beyond every epoch's end.
    let seen = match u32::from_le_bytes(half(22)) {
        u32::MAX => u64::MAX,
        ahead => word(6).saturating_add(u64::from(ahead)),
    };
    SourceCursor {
        source: PartitionId(u16::from_le_bytes([bytes[0], bytes[1]])),
        epoch: Epoch(u32::from_le_bytes(half(2))),
        change_id: ChangeId::new(Seq(word(6)), Rec(word(14))),
        seen: Seq(seen),
        since: ChangeId {
            seq: Seq(later_word(SOURCE_LEN_WITHOUT_SINCE)),
            rec: Rec(later_word(SOURCE_LEN_OF_SEQS)),
        },
        log: SourceLog(later_word(LOG_AT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Entitlement, Filter};
    use weir_types::{AccountId, FirmId, InstrumentId, SessionId, Switch};
    use weir_wire::delivery::FetchOrders;
    use weir_wire::dialogue::{ClientMessage, Tokens, put_question};
    use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame};

    const KEY: [u8; 32] = [7; 32];

    fn sealer(key_id: u8) -> TokenSealer {
        TokenSealer::new(TokenKey::new(key_id, &KEY), NonceCounter::new(1, Nanos(1)))
    }

    fn scope(firm: u32) -> Scope {
        Scope::new(Filter::ALL, Entitlement::firm(FirmId(firm))).unwrap()
    }

    fn sources(count: u16) -> Vec<SourceCursor> {
        let source = |n: u16| SourceCursor {
            source: PartitionId(n),
            epoch: Epoch(u32::from(n) + 1),
            change_id: ChangeId::new(Seq(u64::from(n) * 1_000), Rec(u64::MAX - u64::from(n))),
            seen: Seq(u64::from(n) * 1_007),
            since: ChangeId::new(Seq(u64::from(n) * 990), Rec(u64::MAX - 9 * u64::from(n))),
            log: SourceLog(u64::MAX - u64::from(n)),
        };
        (0..count).map(source).collect()
    }

    fn fetch() -> FetchOrders {
        FetchOrders {
            correlation_id: 1,
            session_id: SessionId(1),
            firm_id: FirmId::NONE,
            account_id: AccountId::NONE,
            instrument_id: InstrumentId::NONE,
            rows_max: 0,
            rows_min: 0,
            bytes_max: 0,
            wait_max_us: 0,
            credit: 1,
            live_only: Switch::Off,
            source_id: PartitionId::NONE,
            min_wait_us: 0,
            credit_rows: 0,
            credit_bytes: 0,
        }
    }

    fn seal(sealer: &mut TokenSealer, scope: &Scope, sources: &[SourceCursor]) -> Vec<u8> {
        let mut token = Vec::new();
        sealer.seal(scope, sources, &mut token);
        token
    }

    /// Of 40 sources and more, a fetch with both tokens was longer than the frames that a node
    /// reads.
    #[test]
    fn a_fetch_with_two_tokens_of_all_sources_is_a_frame_that_a_node_reads() {
        for count in [1, 63, TOKEN_SOURCES_MAX as u16] {
            let token = seal(&mut sealer(1), &scope(1), &sources(count));
            let min_token = seal(&mut sealer(1), &scope(1), &sources(count));
            let mut frame = Vec::new();
            let tokens = Tokens { token: &token, min_token: &min_token };
            put_question(&fetch(), tokens, &mut frame);
            let Framing::Frame { len, message: Ok(raw) } = next_frame(&frame, CLIENT_FRAME_LEN_MAX)
            else {
                panic!("{} bytes of {count} sources are not read", frame.len())
            };
            let read = ClientMessage::decode(&raw).unwrap();
            assert_eq!((len, read), (frame.len(), ClientMessage::FetchOrders(fetch(), tokens)));
        }
    }

    #[test]
    fn a_token_has_32_bytes_and_50_per_source_and_opens_again() {
        for count in [0, 1, 2, 64] {
            let mut sealer = sealer(1);
            let token = seal(&mut sealer, &scope(1), &sources(count));
            assert_eq!(token.len(), 32 + 50 * usize::from(count));
            let mut opened = Vec::new();
            sealer.open(&scope(1), &token, &mut opened).unwrap();
            assert_eq!(opened, sources(count));
            assert_eq!(sealer.peek(&token).unwrap(), sources(count));
        }
    }

    /// Checks that a token of `version`, whose sources have `source_len` bytes, opens to `want`.
    fn check_version(version: u8, source_len: usize, want: &[SourceCursor]) {
        let mut body = Vec::new();
        for source in sources(3) {
            let start = body.len();
            put_source(&source, &mut body);
            body.truncate(start + source_len);
        }
        let head = [version, 1, 3, scope_check(&scope(1))];
        let nonce = [9; 12];
        let cipher = ChaCha20Poly1305::new((&KEY).into());
        let aad = associated_data(&head, &scope(1));
        let tag =
            cipher.encrypt_inout_detached(&Nonce::from(nonce), &aad, body.as_mut_slice().into());
        let token = [&head[..], &nonce, &tag.unwrap(), &body].concat();
        let mut opened = Vec::new();
        sealer(1).open(&scope(1), &token, &mut opened).unwrap();
        assert_eq!(opened, want, "version {version}");
        assert_eq!(sealer(1).peek(&token).unwrap(), want, "version {version}");
    }

    #[test]
    fn tokens_of_the_versions_before_open_with_what_they_have() {
        let with = |since: fn(ChangeId) -> ChangeId| -> Vec<SourceCursor> {
            let log = SourceLog::NONE;
            let at = |at: SourceCursor| SourceCursor { since: since(at.since), log, ..at };
            sources(3).into_iter().map(at).collect()
        };
        check_version(2, 26, &with(|_| ChangeId::START));
        check_version(3, 34, &with(|since| ChangeId::new(since.seq, Rec::NONE)));
        check_version(4, 50, &sources(3));
    }

    #[test]
    fn what_was_seen_too_far_ahead_to_be_told_is_beyond_every_epochs_end() {
        let mut sealer = sealer(1);
        let far = SourceCursor { seen: Seq(u64::MAX / 2), ..sources(1)[0] };
        let token = seal(&mut sealer, &scope(1), &[far]);
        let mut opened = Vec::new();
        sealer.open(&scope(1), &token, &mut opened).unwrap();
        assert_eq!(opened, [SourceCursor { seen: Seq(u64::MAX), ..far }]);
        assert_eq!(opened[0].reach(), ChangeId::new(Seq(u64::MAX), Rec(0)));
    }

    #[test]
    fn two_tokens_of_one_place_share_no_bytes_that_tell_so() {
        let mut sealer = sealer(1);
        let one = seal(&mut sealer, &scope(1), &sources(1));
        let other = seal(&mut sealer, &scope(1), &sources(1));
        assert_ne!(one[NONCE_AT..TAG_AT], other[NONCE_AT..TAG_AT]);
        assert_ne!(one[TOKEN_HEAD_LEN..], other[TOKEN_HEAD_LEN..]);
    }

    #[test]
    fn a_token_of_another_filter_or_entitlement_is_refused_as_such() {
        let mut sealer = sealer(1);
        let token = seal(&mut sealer, &scope(1), &sources(1));
        let mut none = Vec::new();
        for firm in 2..2_000 {
            let error = sealer.open(&scope(firm), &token, &mut none).unwrap_err();
            let want = if scope_check(&scope(firm)) == scope_check(&scope(1)) {
                TokenError::BadSeal
            } else {
                TokenError::OtherScope
            };
            assert_eq!(error, want);
        }
        let later = Scope::new(Filter::ALL, Entitlement::firm(FirmId(1)).at_version(1)).unwrap();
        let error = sealer.open(&later, &token, &mut none).unwrap_err();
        assert_eq!(error.reason(), Reason::ResyncFilter);
        assert_eq!(none, []);
    }

    #[test]
    fn no_changed_bit_and_no_changed_length_passes() {
        let mut sealer = sealer(1);
        let token = seal(&mut sealer, &scope(1), &sources(2));
        let mut none = Vec::new();
        for bit in 0..token.len() * 8 {
            let mut changed = token.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(sealer.open(&scope(1), &changed, &mut none).is_err(), "bit {bit}");
        }
        for len in 0..token.len() {
            let error = sealer.open(&scope(1), &token[..len], &mut none).unwrap_err();
            assert_eq!(error, TokenError::Malformed(len));
            assert_eq!(error.reason(), Reason::ResyncToken);
        }
        assert_eq!(none, []);
    }

    #[test]
    fn an_earlier_key_still_opens_and_an_unknown_one_does_not() {
        let token = seal(&mut sealer(1), &scope(1), &sources(1));
        let mut opened = Vec::new();
        let unknown = sealer(2).open(&scope(1), &token, &mut opened);
        assert_eq!(unknown, Err(TokenError::UnknownKey(1)));
        let keys = TokenKeys::new(TokenKey::new(2, &KEY), vec![TokenKey::new(1, &KEY)]);
        let rotated = TokenSealer::of(&keys, NonceCounter::new(2, Nanos(1)));
        assert_eq!(rotated.open(&scope(1), &token, &mut opened), Ok(()));
        assert_eq!(opened, sources(1));
    }

    #[test]
    fn keys_of_one_identity_are_replaced_for_all_sealers_at_once() {
        let key = |byte: u8| TokenKey::new(1, &[byte; 32]);
        let keys = TokenKeys::new(key(1), Vec::new());
        let mut sealers =
            [1, 2].map(|maker| TokenSealer::of(&keys, NonceCounter::new(maker, Nanos(1))));
        let old = seal(&mut sealers[0], &scope(1), &sources(3));
        keys.replace(key(2), vec![key(1)]);
        let new = seal(&mut sealers[1], &scope(1), &sources(3));
        for token in [&old, &new] {
            let mut opened = Vec::new();
            assert_eq!(sealers[0].open(&scope(1), token, &mut opened), Ok(()));
            assert_eq!(opened, sources(3));
        }
        keys.replace(key(2), Vec::new());
        let mut none = Vec::new();
        assert_eq!(sealers[1].open(&scope(1), &old, &mut none), Err(TokenError::BadSeal));
        assert_eq!(sealers[1].open(&scope(1), &new, &mut none), Ok(()));
        let before = TokenSealer::new(key(1), NonceCounter::new(3, Nanos(1)));
        assert_eq!(before.open(&scope(1), &new, &mut none), Err(TokenError::BadSeal));
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert_eq!(format!("{:?}", TokenKey::new(3, &KEY)), "TokenKey(3)");
    }
}
