//! A WebSocket subscriber's requests: one JSON object per message, equal to a request of the binary
//! protocol (`docs/protocols/market-data.md`). Invalid input is refused with the name of the faulty
//! member; nothing here panics on it.

use std::fmt::{self, Debug};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use weir_types::{MarketContent, MarketPolicy, Nanos, SessionId};
use weir_wire::market::{PATTERN_LEN_MAX, SetMarketInterval, SubscribeMarket, UnsubscribeMarket};
use weir_wire::market_dialogue::MarketRequest;

use crate::query::BadParameter;

/// The default threshold of a quote's move, in parts per million: a hundredth.
const URGENT_MOVE_PPM: u32 = 10_000;
/// Decimal places of a price.
const PLACES: usize = weir_feed::PRICE_EXPONENT.unsigned_abs() as usize;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Subscribes to the instruments of a pattern of at most [`PATTERN_LEN_MAX`] bytes.
    Subscribe(SubscribeMarket, String),
    /// Changes a subscription's interval.
    SetInterval(SetMarketInterval),
    /// Ends a subscription.
    Unsubscribe(UnsubscribeMarket),
}

impl Request {
    /// Parses a session's request.
    ///
    /// # Errors
    /// [`BadParameter`] with the name of the member that is wrong, unknown, repeated or missing; an
    /// empty name where the text is not a JSON object or contains no known request.
    pub fn parse(text: &str, session_id: SessionId) -> Result<Request, BadParameter> {
        let members: Members =
            serde_json::from_str(text).map_err(|_| bad("", "a message is one JSON object"))?;
        let members = members.0;
        for (at, (name, _)) in members.iter().enumerate() {
            if members[..at].iter().any(|(before, _)| before == name) {
                return Err(bad(name, "it comes twice"));
            }
        }
        let has = |op: &str| members.iter().any(|(name, _)| name == op);
        let ops = ["subscribe", "set_interval", "unsubscribe"];
        match ops.into_iter().find(|op| has(op)) {
            Some("subscribe") => subscribe(&members, session_id),
            Some("set_interval") => set_interval(&members, session_id),
            Some(_) => unsubscribe(&members, session_id),
            None => Err(bad("", "a message says subscribe, set_interval or unsubscribe")),
        }
    }

    /// Appends the request's frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Request::Subscribe(message, pattern) => {
                MarketRequest::Subscribe(*message, pattern.as_bytes()).put(out);
            }
            Request::SetInterval(message) => MarketRequest::SetInterval(*message).put(out),
            Request::Unsubscribe(message) => MarketRequest::Unsubscribe(*message).put(out),
        }
    }
}

type Member = (String, Value);

fn subscribe(members: &[Member], session_id: SessionId) -> Result<Request, BadParameter> {
    let (mut pattern, mut content, mut policy) = (None, None, None);
    let mut message = SubscribeMarket {
        urgent_move: 0,
        interval: Nanos(0),
        session_id,
        handle: 0,
        urgent_move_ppm: URGENT_MOVE_PPM,
        queue_len_max: 0,
        depth: 0,
        content: MarketContent::Bbo,
        policy: MarketPolicy::Conflate,
    };
    for (name, value) in members {
        match name.as_str() {
            "subscribe" => message.handle = number(name, value)?,
            "pattern" => pattern = Some(pattern_of(name, value)?),
            "content" => content = Some(named(MarketContent::from_code, value, name, CONTENTS)?),
            "policy" => policy = Some(named(MarketPolicy::from_code, value, name, POLICIES)?),
            "depth" => message.depth = number(name, value)?,
            "interval" => message.interval = Nanos(number(name, value)?),
            "urgent_move_ppm" => message.urgent_move_ppm = number(name, value)?,
            "urgent_move" => message.urgent_move = price(name, value)?,
            "queue_len_max" => message.queue_len_max = number(name, value)?,
            _ => return Err(unknown(name)),
        }
    }
    message.content = content.ok_or_else(|| bad("content", CONTENTS))?;
    message.policy = policy.unwrap_or(match message.content {
        // Messages that are never merged are reported as lost when they do not fit.
        MarketContent::Trades | MarketContent::Orders => MarketPolicy::SkipAndNotify,
        _ => MarketPolicy::Conflate,
    });
    let pattern = pattern.ok_or_else(|| bad("pattern", PATTERN))?;
    Ok(Request::Subscribe(message, pattern))
}

fn set_interval(members: &[Member], session_id: SessionId) -> Result<Request, BadParameter> {
    let (mut handle, mut interval) = (0, None);
    for (name, value) in members {
        match name.as_str() {
            "set_interval" => handle = number(name, value)?,
            "interval" => interval = Some(Nanos(number(name, value)?)),
            _ => return Err(unknown(name)),
        }
    }
    let interval = interval.ok_or_else(|| bad("interval", NUMBER))?;
    Ok(Request::SetInterval(SetMarketInterval { interval, session_id, handle }))
}

fn unsubscribe(members: &[Member], session_id: SessionId) -> Result<Request, BadParameter> {
    let mut handle = 0;
    for (name, value) in members {
        match name.as_str() {
            "unsubscribe" => handle = number(name, value)?,
            _ => return Err(unknown(name)),
        }
    }
    Ok(Request::Unsubscribe(UnsubscribeMarket { session_id, handle }))
}

/// The accepted values of members, for refusals.
const NUMBER: &str = "a whole number in its range, or one as text";
const PATTERN: &str = "a symbol, the beginning of symbols and a star, or a star: at most 25 bytes";
const PRICE: &str = "a price above or equal to zero as text, with at most nine decimal places";
const CONTENTS: &str = "Bbo, Depth, Levels, Orders, Trades, Statistics or Status";
const POLICIES: &str = "Keep, Conflate, SkipAndNotify or Disconnect";

fn bad(parameter: &str, what: &'static str) -> BadParameter {
    BadParameter { parameter: parameter.chars().take(40).collect(), what }
}

fn unknown(name: &str) -> BadParameter {
    bad(name, "there is no such member here")
}

/// Parses a number, as such or as text: JavaScript's numbers do not have 64 bits.
fn number<T: TryFrom<u64>>(name: &str, value: &Value) -> Result<T, BadParameter> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => digits(text).and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| bad(name, NUMBER))
}

/// Returns the text if it consists of digits only.
fn digits(text: &str) -> Option<&str> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then_some(text)
}

/// Parses a price to its mantissa.
fn price(name: &str, value: &Value) -> Result<u64, BadParameter> {
    let mantissa = value.as_str().and_then(|text| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let (whole, fraction) = (digits(whole)?, digits(fraction)?);
        let padded = (fraction.len() <= PLACES).then(|| format!("{whole}{fraction:0<PLACES$}"));
        padded?.parse().ok()
    });
    mantissa.ok_or_else(|| bad(name, PRICE))
}

fn pattern_of(name: &str, value: &Value) -> Result<String, BadParameter> {
    let pattern = value.as_str().filter(|text| text.len() <= PATTERN_LEN_MAX);
    pattern.map(str::to_owned).ok_or_else(|| bad(name, PATTERN))
}

/// Parses a value by its name in the schema, in any case.
fn named<T: Debug>(
    from_code: impl Fn(u8) -> Option<T>,
    value: &Value,
    name: &str,
    what: &'static str,
) -> Result<T, BadParameter> {
    let text = value.as_str().unwrap_or_default();
    (0..=u8::MAX)
        .filter_map(from_code)
        .find(|value| format!("{value:?}").eq_ignore_ascii_case(text))
        .ok_or_else(|| bad(name, what))
}

/// The members of an object in order, including repeated ones.
struct Members(Vec<Member>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

/// The maximum number of members: more than any request has.
const MEMBERS_MAX: usize = 16;

impl<'de> Visitor<'de> for Object {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            if members.len() >= MEMBERS_MAX {
                return Err(A::Error::custom("far too many members"));
            }
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(11);

    fn subscription(text: &str) -> (SubscribeMarket, String) {
        match Request::parse(text, SESSION) {
            Ok(Request::Subscribe(message, pattern)) => (message, pattern),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_subscription_says_all_that_the_binary_one_says() {
        let (message, pattern) = subscription(
            r#"{"subscribe":7,"pattern":"AAPL*","content":"depth","policy":"Disconnect","depth":10,
                "interval":"18446744073709551615","urgent_move_ppm":5,"urgent_move":"0.05",
                "queue_len_max":100}"#,
        );
        let want = SubscribeMarket {
            urgent_move: 50_000_000,
            interval: Nanos(u64::MAX),
            session_id: SESSION,
            handle: 7,
            urgent_move_ppm: 5,
            queue_len_max: 100,
            depth: 10,
            content: MarketContent::Depth,
            policy: MarketPolicy::Disconnect,
        };
        assert_eq!((message, pattern.as_str()), (want, "AAPL*"));
    }

    #[test]
    fn what_a_subscription_leaves_open_depends_on_its_content() {
        for (content, policy) in [
            ("Bbo", MarketPolicy::Conflate),
            ("levels", MarketPolicy::Conflate),
            ("STATUS", MarketPolicy::Conflate),
            ("Trades", MarketPolicy::SkipAndNotify),
            ("orders", MarketPolicy::SkipAndNotify),
        ] {
            let text = format!(r#"{{"subscribe":1,"pattern":"*","content":"{content}"}}"#);
            let (message, _) = subscription(&text);
            assert_eq!((message.policy, message.interval), (policy, Nanos(0)), "{content}");
            assert_eq!(message.urgent_move_ppm, 10_000);
        }
    }

    #[test]
    fn intervals_are_set_and_subscriptions_ended_by_their_numbers() {
        let set = Request::parse(r#"{"set_interval":7,"interval":1000000}"#, SESSION);
        let want = SetMarketInterval { interval: Nanos(1_000_000), session_id: SESSION, handle: 7 };
        assert_eq!(set, Ok(Request::SetInterval(want)));
        let ended = Request::parse(r#"{"unsubscribe":"7"}"#, SESSION);
        let want = UnsubscribeMarket { session_id: SESSION, handle: 7 };
        assert_eq!(ended, Ok(Request::Unsubscribe(want)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with =
            |member: &str| format!(r#"{{"subscribe":1,"pattern":"*","content":"Bbo",{member}}}"#);
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let many: Vec<String> = (0..17).map(|at| format!(r#""m{at}":1"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        for (text, parameter) in [
            ("", ""),
            ("[1]", ""),
            ("{", ""),
            ("{}", ""),
            (deep.as_str(), ""),
            (many.as_str(), ""),
            (r#"{"hello":1}"#, ""),
            (r#"{"subscribe":-1,"pattern":"*","content":"Bbo"}"#, "subscribe"),
            (r#"{"subscribe":4294967296,"pattern":"*","content":"Bbo"}"#, "subscribe"),
            (r#"{"subscribe":1.5,"pattern":"*","content":"Bbo"}"#, "subscribe"),
            (r#"{"subscribe":1,"content":"Bbo"}"#, "pattern"),
            (r#"{"subscribe":1,"pattern":"*"}"#, "content"),
            (r#"{"subscribe":1,"pattern":7,"content":"Bbo"}"#, "pattern"),
            (r#"{"subscribe":1,"pattern":"*","content":"bbbo"}"#, "content"),
            (r#"{"subscribe":1,"pattern":"*","content":1}"#, "content"),
            (&with(r#""policy":"skip""#), "policy"),
            (&with(r#""depth":65536"#), "depth"),
            (&with(r#""interval":"1x""#), "interval"),
            (&with(r#""interval":"+1""#), "interval"),
            (&with(r#""interval":"18446744073709551616""#), "interval"),
            (&with(r#""urgent_move":0.05"#), "urgent_move"),
            (&with(r#""urgent_move":"0.0000000001""#), "urgent_move"),
            (&with(r#""urgent_move":"99999999999999""#), "urgent_move"),
            (&with(r#""urgent_move":"1.""#), "urgent_move"),
            (&with(r#""colour":"red""#), "colour"),
            (&with(r#""content":"Bbo""#), "content"),
            (r#"{"set_interval":1}"#, "interval"),
            (r#"{"set_interval":1,"interval":1,"pattern":"*"}"#, "pattern"),
            (r#"{"unsubscribe":1,"interval":1}"#, "interval"),
            (&format!(r#"{{"subscribe":1,"pattern":"{}"}}"#, "A".repeat(26)), "pattern"),
        ] {
            let refused = Request::parse(text, SESSION).unwrap_err();
            assert_eq!(refused.parameter, parameter, "{}", &text[..text.len().min(80)]);
        }
    }

    /// Decodes a request's frame like a gateway.
    fn read_back(request: &Request) -> Request {
        use weir_wire::frame::{CLIENT_FRAME_LEN_MAX, Framing, next_frame};
        let mut frame = Vec::new();
        request.put(&mut frame);
        let Framing::Frame { message: Ok(raw), .. } = next_frame(&frame, CLIENT_FRAME_LEN_MAX)
        else {
            panic!("a whole frame")
        };
        match MarketRequest::decode(&raw) {
            Some(Ok(MarketRequest::Subscribe(message, pattern))) => {
                Request::Subscribe(message, String::from_utf8(pattern.to_vec()).unwrap())
            }
            Some(Ok(MarketRequest::SetInterval(message))) => Request::SetInterval(message),
            Some(Ok(MarketRequest::Unsubscribe(message))) => Request::Unsubscribe(message),
            other => panic!("{other:?}"),
        }
    }

    const PIECES: [&str; 22] = [
        "{\"subscribe\":7",
        "{\"set_interval\":7",
        "{\"unsubscribe\":\"7\"",
        ",\"pattern\":\"AAPL*\"",
        ",\"content\":\"Bbo\"",
        ",\"content\":\"trades\"",
        ",\"interval\":5",
        ",\"interval\":\"18446744073709551615\"",
        ",\"depth\":65535",
        ",\"policy\":\"Keep\"",
        ",\"urgent_move\":\"0.05\"",
        ",\"urgent_move_ppm\":1",
        ",\"queue_len_max\":4294967295",
        ",\"colour\":{\"a\":[1]}",
        "-1",
        "1e3",
        "null",
        "[",
        "\\u00e9",
        "\"",
        "}",
        "}",
    ];

    proptest::proptest! {
        #[test]
        fn whatever_is_said_is_refused_by_its_name_or_read_by_the_gateway_as_it_was_meant(
            places in proptest::collection::vec(0..PIECES.len(), 0..8),
            rest in ".{0,20}",
            is_whole in proptest::bool::ANY,
        ) {
            let pieces: String = places.iter().map(|place| PIECES[*place]).collect();
            let text = if is_whole { format!("{pieces}}}") } else { format!("{pieces}{rest}") };
            match Request::parse(&text, SESSION) {
                Ok(request) => assert_eq!(read_back(&request), request),
                Err(bad) => assert!(bad.parameter.chars().count() <= 40 && !bad.what.is_empty()),
            }
        }
    }
}
