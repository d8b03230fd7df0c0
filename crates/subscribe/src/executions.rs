//! Executions of outside cores: a core's trades, published to the topics of executions and trades
//! under the source's number.
//!
//! A core publishes them as messages addressed to no session, each an `ExecutionReport` of a trade
//! or a `TradeBusted`; the firm in the report decides the topic. The mark of an execution is the
//! core's own number. So it is taken once, however often it is sent, and it is never merged with
//! order state.

use weir_broker::{MessageNo, OriginMark, PublishTimes, Source, Topic};
use weir_types::{ExecType, PartitionId, Position, Reason, Role};
use weir_wire::Message;
use weir_wire::event::TradeBusted;
use weir_wire::frame::parse_message;
use weir_wire::report::ExecutionReport;
use weir_wire::subscription::PublishMessage;

use super::agent::Subscriptions;
use super::producer::{Content, of_bust, of_trade};

/// True if a message is an execution of a core: one from a source and for no session.
pub(super) fn is_execution(role: Role, message: &PublishMessage) -> bool {
    role == Role::Source && message.to_session_id.is_none()
}

impl Subscriptions {
    /// Takes an execution and returns the number that acknowledges it. If one of its topics has no
    /// room, the publisher sends it again, and the topics that have it pass over it.
    pub(super) fn take_execution(
        &mut self,
        message: &PublishMessage,
        body: &[u8],
        times: PublishTimes,
    ) -> Result<MessageNo, Reason> {
        let (source, topics) = topics_of(body)?;
        match self.sources.iter().find(|(known, _)| *known == source) {
            None => return Err(Reason::UnknownSource),
            Some((_, feeds)) if *feeds != message.session_id => return Err(Reason::NotEntitled),
            Some(_) => {}
        }
        let mark = OriginMark {
            source: Source(u32::from(source.0)),
            epoch: message.epoch,
            record: Position(message.message_no),
        };
        let mut body = Vec::with_capacity(512);
        // A topic without subscriptions needs no acknowledgement.
        let mut taken = MessageNo::NONE;
        for (topic, content) in topics {
            body.clear();
            content.put(&mut body);
            taken = taken.max(self.put_in(topic, mark, &body, times)?.unwrap_or_default());
        }
        Ok(taken)
    }
}

/// The source of an execution, and its topics with the message for each.
fn topics_of(body: &[u8]) -> Result<(PartitionId, Vec<(Topic, Content)>), Reason> {
    let raw = parse_message(body).map_err(|error| error.reason())?;
    match raw.template_id {
        ExecutionReport::TEMPLATE_ID => {
            let report: ExecutionReport = raw.decode_whole().map_err(|error| error.reason())?;
            let event = report.event;
            let is_trade = event.exec_type == ExecType::Trade && !event.firm_id.is_none();
            let said = (event.partition_id, of_trade(event));
            if is_trade { Ok(said) } else { Err(Reason::FieldOutOfRange) }
        }
        TradeBusted::TEMPLATE_ID => {
            let bust: TradeBusted = raw.decode_whole().map_err(|error| error.reason())?;
            let said = (bust.partition_id, of_bust(bust));
            if bust.firm_id.is_none() { Err(Reason::FieldOutOfRange) } else { Ok(said) }
        }
        _ => Err(Reason::NotServedHere),
    }
}
