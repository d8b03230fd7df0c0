//! A reader's place in order state that the node keeps under a name, by a durable subscription to
//! state: for `weir orders --name`.
//!
//! The subscription is on the node's listener for subscribers, the orders are on another; the
//! session is logged on at each once. A place is kept after the rows that it covers were printed,
//! and not more often than every so often, since each is saved before the node says so.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_client::SessionConfig;
use weir_client::subscription::{BrokerClient, BrokerEvent, Credit, NewSubscription, Seen};
use weir_types::{Reason, SubscriptionKind};

use super::endpoint::{Login, TIMEOUT, once_free};
use super::subscriptions::address_of;

/// The shortest time between two saved positions.
const KEEP_INTERVAL: Duration = Duration::from_millis(500);

/// A place under a name.
pub struct NamedToken {
    client: BrokerClient,
    handle: u32,
    kept: Vec<u8>,
    kept_at: Instant,
}

impl NamedToken {
    /// Attaches to the name, which is made where nobody has; with the token that it keeps.
    ///
    /// # Errors
    /// When the node serves no subscriptions, or the name is another's or of another kind.
    pub fn attach(
        login: &Login,
        subscriptions: Option<SocketAddr>,
        name: &str,
    ) -> anyhow::Result<(NamedToken, Vec<u8>)> {
        let address = subscriptions.map_or_else(|| address_of(login), Ok)?;
        let session = SessionConfig::new(login.session_id(), login.key()?);
        let mut client = BrokerClient::new(address, session);
        let new = NewSubscription::new(name, SubscriptionKind::State);
        match once_free(|| client.create(&new)) {
            Ok(())
            | Err(weir_client::ClientError::Refused {
                reason: Reason::SubscriptionExists, ..
            }) => {}
            Err(error) => return Err(error).with_context(|| format!("the name {name:?}")),
        }
        let handle = client.subscribe(name, Credit::default(), Seen::new());
        let begun = Instant::now();
        let mut found = None;
        while found.is_none() {
            if begun.elapsed() > TIMEOUT {
                bail!("{name}: the node says no token: another reader has it, or it is no name");
            }
            client
                .poll(Duration::from_millis(50), |event| match event {
                    BrokerEvent::Token { token, .. } => found = Some(Ok(token.to_vec())),
                    BrokerEvent::Ended { reason, .. } => found = Some(Err(reason)),
                    _ => {}
                })
                .with_context(|| format!("the name {name:?}"))?;
        }
        let token = found.expect("the loop ends with one");
        let token = token.map_err(|reason| anyhow::anyhow!("{name}: {reason}"))?;
        let named = NamedToken { client, handle, kept: token.clone(), kept_at: Instant::now() };
        Ok((named, token))
    }

    /// Keeps a token when it is time, and the connection alive.
    ///
    /// # Errors
    /// When the node does not keep it, or another connection has taken the session over.
    pub fn tend(&mut self, token: &[u8]) -> anyhow::Result<()> {
        self.client.poll(Duration::ZERO, |_| {}).context("the place's name")?;
        if self.kept_at.elapsed() < KEEP_INTERVAL {
            return Ok(());
        }
        self.keep(token)
    }

    /// Keeps a token now.
    ///
    /// # Errors
    /// As [`NamedToken::tend`].
    pub fn keep(&mut self, token: &[u8]) -> anyhow::Result<()> {
        if token != self.kept {
            self.client.keep_token(self.handle, token).context("keeping the token")?;
            self.kept = token.to_vec();
        }
        self.kept_at = Instant::now();
        Ok(())
    }
}
