//! `weir order`, `weir cancel`, `weir mass-cancel`: one request of a trading session, and the
//! reports that answer it.
//!
//! The session logs on for the request alone and resumes nothing: its orders stay in the book. A
//! refused request is an error with the reason's name.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::clock::unix_time;
use weir_client::open_orders::OpenOrders;
use weir_client::session::{SessionEvent, Submit, Times};
use weir_client::status::InstrumentStatus;
use weir_client::{Client, Incoming};
use weir_runtime::civil::parse_moment;
use weir_types::{
    AccountId, ClOrdId, ExecInst, ExecType, FirmId, InstrumentId, MassCancelScope, Nanos, OrdType,
    OrderId, PartitionId, Price, Qty, Reason, RequestNo, SelfTradePrevention, SessionId, Side,
    TimeInForce,
};
use weir_wire::Request;
use weir_wire::order_entry::{CancelOrder, MassCancel, NewOrder};

use super::report::{Printer, reason_text};
use super::{Instruments, parse_price, parse_qty};
use crate::choices::by_name;
use crate::endpoint::{Login, TIMEOUT};
use crate::units;

/// Options of `weir order`.
#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// buy or sell.
    #[arg(value_parser = parse_side)]
    side: Side,
    /// Quantity: a decimal number.
    #[arg(allow_negative_numbers = true)]
    qty: String,
    /// The instrument's symbol or identifier.
    symbol: String,
    /// Limit price: a decimal number. Without one a market order, with --stop a stop order.
    #[arg(allow_negative_numbers = true)]
    price: Option<String>,
    #[command(flatten)]
    by: By,
    /// The account to trade for; by default the one with the session's number.
    #[arg(long, value_name = "ID")]
    account: Option<u32>,
    /// Lifetime: day, gtc, gtd (with --until), ioc, fok, at-the-open or at-the-close.
    #[arg(long, value_name = "LIFETIME", default_value = "day", value_parser = parse_lifetime)]
    time_in_force: TimeInForce,
    /// Expiry of a gtd order: 2026-11-23T08:50:00Z, or from now: +90s, +10m.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Stop price: the order waits until a trade reaches it.
    #[arg(long, value_name = "PRICE", allow_negative_numbers = true)]
    stop: Option<String>,
    /// Quantity shown at a time: an iceberg order.
    #[arg(long, value_name = "QTY")]
    display: Option<String>,
    /// Quantity that must trade at once.
    #[arg(long, value_name = "QTY")]
    min_qty: Option<String>,
    /// Reject the order if it would trade at once.
    #[arg(long)]
    post_only: bool,
    /// The order's name, up to 16 characters; by default drawn from the clock.
    #[arg(long, value_name = "NAME")]
    cl_ord_id: Option<String>,
}

/// The session of a request, and the output.
#[derive(Debug, clap::Args)]
struct By {
    #[command(flatten)]
    login: Login,
    /// Print reports for this long after the answer.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::duration)]
    follow: Duration,
    /// JSON objects, one a line, instead of columns.
    #[arg(long)]
    json: bool,
}

/// Options of `weir cancel`.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// The order: its cl_ord_id or its order_id.
    order: String,
    #[command(flatten)]
    by: By,
}

/// Options of `weir mass-cancel`.
#[derive(Debug, clap::Args)]
pub struct MassCancelArgs {
    #[command(flatten)]
    by: By,
    /// Only orders of this instrument: symbol or identifier.
    #[arg(long, value_name = "SYMBOL")]
    instrument: Option<String>,
    /// The orders of this account instead of the session's.
    #[arg(long, value_name = "ID")]
    account: Option<u32>,
    /// The orders of the session's whole firm.
    #[arg(long, conflicts_with = "account")]
    firm: bool,
}

/// Runs `weir order`.
///
/// # Errors
/// When a value is refused, the node cannot be reached, or the order is rejected.
pub fn run_order(args: &OrderArgs) -> anyhow::Result<()> {
    args.by.check()?;
    let instrument = args.by.login.endpoint.instrument(&args.symbol)?;
    let order = new_order(args, &instrument)?;
    let mut desk = Desk::open(&args.by)?;
    desk.ask(instrument.partition_id(), Request::NewOrder(order))?;
    desk.close()
}

/// Runs `weir cancel`.
///
/// # Errors
/// When the session has no such order, the node cannot be reached, or the cancel is rejected.
pub fn run_cancel(args: &CancelArgs) -> anyhow::Result<()> {
    args.by.check()?;
    let mut desk = Desk::open(&args.by)?;
    let session_id = args.by.login.session_id();
    let wanted = OpenOrders { entered_by: session_id, ..OpenOrders::default() };
    let orders = desk.client.open_orders(session_id, wanted, TIMEOUT, &mut |_, _| {})?;
    let is_named = |name: &str, id: OrderId| name == args.order || id.to_string() == args.order;
    let found = orders.iter().find(|row| is_named(&row.cl_ord_id.to_string(), row.order_id));
    let row = found.with_context(|| {
        let names: Vec<_> = orders.iter().map(|row| row.cl_ord_id.to_string()).take(20).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("session {session_id} has no live order {:?}; it has {has}", args.order)
    })?;
    let cancel = CancelOrder {
        request_no: RequestNo::NONE,
        cl_ord_id: fresh_name(),
        orig_cl_ord_id: ClOrdId::NONE,
        order_id: row.order_id,
        sending_time: unix_time(),
        session_id: SessionId::NONE,
        instrument_id: row.instrument_id,
    };
    desk.ask(row.partition_id, Request::CancelOrder(cancel))?;
    desk.close()
}

/// Runs `weir mass-cancel`.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub fn run_mass_cancel(args: &MassCancelArgs) -> anyhow::Result<()> {
    args.by.check()?;
    let endpoint = &args.by.login.endpoint;
    let instrument = args.instrument.as_ref().map(|name| endpoint.instrument(name)).transpose()?;
    let mut desk = Desk::open(&args.by)?;
    let (scope, account_id) = match (args.account, args.firm) {
        (Some(id), _) => (MassCancelScope::Account, AccountId(id)),
        (None, true) => (MassCancelScope::Firm, AccountId::NONE),
        (None, false) => (MassCancelScope::Session, AccountId::NONE),
    };
    let firm_id = if args.firm { desk.firm_id() } else { FirmId::NONE };
    let instrument_id = instrument.as_ref().map_or(InstrumentId::NONE, |one| one.instrument_id());
    let partitions = match &instrument {
        Some(one) => vec![one.partition_id()],
        None => desk.partitions(),
    };
    let mut cancelled = 0;
    for partition_id in partitions {
        let cancel = MassCancel {
            request_no: RequestNo::NONE,
            cl_ord_id: fresh_name(),
            sending_time: unix_time(),
            session_id: SessionId::NONE,
            instrument_id,
            account_id,
            firm_id,
            partition_id,
            scope,
        };
        cancelled += desk.ask(partition_id, Request::MassCancel(cancel))?;
    }
    if args.by.json {
        println!("{}", serde_json::json!({ "cancelled": cancelled }));
    } else {
        let noun = if cancelled == 1 { "order is" } else { "orders are" };
        println!("{cancelled} {noun} cancelled");
    }
    desk.close()
}

impl By {
    fn check(&self) -> anyhow::Result<()> {
        if self.login.session == 1 {
            bail!(
                "session 1 is an operator and enters no orders: name a trader with --session (make \
                 one with `weir admin session --id 11 --firm 11 --keep-key`)"
            );
        }
        Ok(())
    }
}

fn parse_side(text: &str) -> Result<Side, String> {
    by_name(text, Side::ALL)
}

fn parse_lifetime(text: &str) -> Result<TimeInForce, String> {
    by_name(text, TimeInForce::ALL)
}

/// A name that no earlier order of the session has: the time in nanoseconds.
fn fresh_name() -> ClOrdId {
    ClOrdId::from_number(unix_time().0)
}

fn new_order(args: &OrderArgs, of: &InstrumentStatus) -> anyhow::Result<NewOrder> {
    let price = |text: &Option<String>, what| {
        text.as_ref().map(|text| parse_price(of, text, what)).transpose()
    };
    let qty = |text: &Option<String>, what| {
        let qty = text.as_ref().map(|text| parse_qty(of, text, what)).transpose();
        qty.map(|qty| qty.unwrap_or(Qty::ZERO))
    };
    let (limit, stop) = (price(&args.price, "price")?, price(&args.stop, "--stop")?);
    let ord_type = match (limit, stop) {
        (Some(_), None) => OrdType::Limit,
        (None, None) => OrdType::Market,
        (Some(_), Some(_)) => OrdType::StopLimit,
        (None, Some(_)) => OrdType::Stop,
    };
    let cl_ord_id = match &args.cl_ord_id {
        None => fresh_name(),
        Some(text) => ClOrdId::new(text)
            .filter(|name| name.is_valid() && !name.is_none())
            .with_context(|| format!("--cl-ord-id {text:?}: want 1 to 16 printable characters"))?,
    };
    let is_gtd = args.time_in_force == TimeInForce::Gtd;
    anyhow::ensure!(is_gtd == args.until.is_some(), "--time-in-force gtd needs --until, no other");
    let until = args.until.as_ref().map(|text| parse_moment(text, unix_time())).transpose();
    Ok(NewOrder {
        request_no: RequestNo::NONE,
        cl_ord_id,
        price: limit.unwrap_or(Price(0)),
        order_qty: parse_qty(of, &args.qty, "quantity")?,
        min_qty: qty(&args.min_qty, "--min-qty")?,
        display_qty: qty(&args.display, "--display")?,
        stop_px: stop.unwrap_or(Price(0)),
        expire_time: until.map_err(anyhow::Error::msg).context("--until")?.unwrap_or(Nanos(0)),
        sending_time: unix_time(),
        session_id: SessionId::NONE,
        instrument_id: of.instrument_id(),
        account_id: AccountId(args.account.unwrap_or(args.by.login.session)),
        side: args.side,
        ord_type,
        time_in_force: args.time_in_force,
        exec_inst: if args.post_only { ExecInst::POST_ONLY } else { ExecInst::NONE },
        self_trade_prevention: SelfTradePrevention::None,
    })
}

/// A trading session that is logged on, and the printer of its reports.
struct Desk {
    client: Client,
    session_id: SessionId,
    printer: Printer,
    follow: Duration,
    /// A rejection that was reported after its row was printed.
    rejected: Option<Reason>,
}

/// The answer to a request.
enum Answer {
    Done(u64),
    Refused(Reason),
}

impl Desk {
    fn open(by: &By) -> anyhow::Result<Desk> {
        let instruments = Instruments::fetch(&by.login.endpoint)?;
        let client = by.login.client()?;
        let printer = Printer::new(instruments, by.json);
        let (session_id, follow) = (by.login.session_id(), by.follow);
        Ok(Desk { client, session_id, printer, follow, rejected: None })
    }

    fn firm_id(&self) -> FirmId {
        self.client.session(self.session_id).map_or(FirmId::NONE, |session| session.firm_id())
    }

    fn partitions(&self) -> Vec<PartitionId> {
        let session = self.client.session(self.session_id).into_iter();
        let all = session.flat_map(weir_client::Session::partitions);
        all.filter(|id| *id != weir_client::admin::CONTROL).collect()
    }

    /// Sends a request and prints its reports; the number of orders that a mass cancel changed.
    fn ask(&mut self, partition_id: PartitionId, request: Request) -> anyhow::Result<u64> {
        let now = self.client.clock().now();
        let times = Times { due: now, sent: now };
        // A mass cancel's answer comes behind the reports of the orders that it cancels.
        let is_mass = matches!(request, Request::MassCancel(_));
        let submitted = self.client.submit(self.session_id, partition_id, request, times);
        let Submit::Sent(request_no) = submitted else {
            bail!("session {} may send no request now: {submitted:?}", self.session_id);
        };
        let begun = Instant::now();
        let mut answered: Option<(Answer, Instant)> = None;
        loop {
            if let Some((answer, at)) = &answered
                && at.elapsed() >= self.follow
            {
                return match answer {
                    Answer::Done(count) => Ok(*count),
                    Answer::Refused(reason) => bail!("refused: {}", reason_text(*reason)),
                };
            }
            anyhow::ensure!(
                answered.is_some() || begun.elapsed() < TIMEOUT,
                "no answer within {TIMEOUT:?}: the node may have executed the request or not; see \
                 `weir orders`"
            );
            let (printer, rejected) = (&mut self.printer, &mut self.rejected);
            self.client.poll(Duration::from_millis(20), |incoming, _| {
                let Incoming::Session(_, event) = incoming else { return };
                let answer = take(&event, request_no, &mut *printer, &mut *rejected);
                let is_report = matches!(event, SessionEvent::Report { .. });
                if let Some(answer) = answer.filter(|_| !(is_mass && is_report)) {
                    answered.get_or_insert((answer, Instant::now()));
                }
            })?;
        }
    }

    fn close(self) -> anyhow::Result<()> {
        self.client.log_out(TIMEOUT)?;
        match self.rejected {
            Some(reason) => bail!("the order was rejected: {}", reason_text(reason)),
            None => Ok(()),
        }
    }
}

/// Prints an event; returns the answer to the request, if it is one.
fn take(
    event: &SessionEvent,
    request_no: RequestNo,
    printer: &mut Printer,
    rejected: &mut Option<Reason>,
) -> Option<Answer> {
    match event {
        SessionEvent::Report { report, .. } => {
            printer.report(&report.event);
            if report.event.exec_type == ExecType::Rejected {
                *rejected = Some(report.event.reason);
            }
            (report.event.request_no == request_no).then_some(Answer::Done(0))
        }
        SessionEvent::Rejected { rejected, .. } => {
            printer.rejected(rejected);
            (rejected.request_no == request_no).then_some(Answer::Refused(rejected.reason))
        }
        SessionEvent::Done { done, .. } => {
            (done.request_no == request_no).then_some(Answer::Done(done.affected_count))
        }
        SessionEvent::Refused { reject, .. } => {
            (reject.request_no == request_no).then_some(Answer::Refused(reject.reason))
        }
        SessionEvent::TradeBusted(bust) => {
            printer.busted(bust);
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_and_lifetimes_are_named_in_lower_case() {
        assert_eq!(parse_side("buy"), Ok(Side::Buy));
        assert_eq!(parse_lifetime("ioc"), Ok(TimeInForce::Ioc));
        assert_eq!(parse_lifetime("at-the-close"), Ok(TimeInForce::AtTheClose));
        assert_eq!(parse_side("long"), Err("want buy, sell".to_owned()));
    }

    #[test]
    fn fresh_names_differ() {
        let (one, two) = (fresh_name(), fresh_name());
        assert!(one.is_valid() && one != ClOrdId::NONE);
        assert!(one <= two);
    }
}
