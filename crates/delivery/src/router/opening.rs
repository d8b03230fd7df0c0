//! From a token to a reader's places, and their changes when sources come and go.
//!
//! ```text
//! the token names a source that is      | its place is
//! --------------------------------------+------------------------------------------------------
//! known here                            | the place from which the reader goes on
//! not known here                        | carried in the reader's next tokens, the source is away,
//!                                       |   unless the backends are of this process
//! known, and not asked for              | carried in the reader's next tokens
//! retired, and the place is at its end  | dropped: the reader has had all of its changes
//! retired, and the place is before that | refused: the reader may need a removed change
//! a source known here is not named      | its beginning: it is new to the reader
//! ```

use weir_types::{ChangeId, PartitionId, Reason};

use super::Router;
use super::leg::Leg;
use super::reader::{Reader, Terms};
use crate::filter::Scope;
use crate::token::{SourceCursor, TOKEN_SOURCES_MAX, TokenError};

impl Router {
    /// Returns the places of a token: legs in the sources known here, and places in others.
    pub(super) fn open(
        &mut self,
        scope: &Scope,
        terms: &Terms,
        token: &[u8],
    ) -> Result<(Vec<Leg>, Vec<SourceCursor>), Reason> {
        self.opened.clear();
        if !token.is_empty() {
            self.sealer.open(scope, token, &mut self.opened).map_err(TokenError::reason)?;
        }
        self.opened.sort_by_key(|at| at.source);
        if let Some(twice) = self.opened.windows(2).find(|two| two[0].source == two[1].source) {
            return Err(TokenError::Source(twice[0].source).reason());
        }
        let leg_of = |source: PartitionId| {
            let at = self.opened.binary_search_by_key(&source, |at| at.source).ok()?;
            Some(Leg::new(self.opened[at]))
        };
        let sources = self.pool.sources().iter().filter(|source| terms.is_about(source.id));
        let legs: Vec<Leg> =
            sources.map(|s| leg_of(s.id).unwrap_or_else(|| Leg::at_start(s.id))).collect();
        let mut carried = Vec::new();
        for at in &self.opened {
            if self.pool.source(at.source).is_some() {
                if !terms.is_about(at.source) {
                    carried.push(*at);
                }
                continue;
            }
            match self.retired.iter().find(|last| last.source == at.source) {
                None => carried.push(*at),
                Some(last) if has_all(at, last) => {}
                Some(_) => return Err(Reason::ResyncFloor),
            }
        }
        if legs.len() + carried.len() > TOKEN_SOURCES_MAX {
            return Err(Reason::ResyncToken);
        }
        Ok((legs, carried))
    }
}

impl Router {
    /// Sets the place that each source must have reached before the fetch is answered.
    pub(super) fn set_min(
        &mut self,
        scope: &Scope,
        reader: &mut Reader,
        min_token: &[u8],
    ) -> Result<(), Reason> {
        if min_token.is_empty() {
            return Ok(());
        }
        self.opened.clear();
        let opened = self.sealer.open(scope, min_token, &mut self.opened);
        opened.map_err(|_| Reason::MinTokenInvalid)?;
        for min in self.opened.iter().filter(|min| reader.terms.is_about(min.source)) {
            match reader.legs.iter_mut().find(|leg| leg.source() == min.source) {
                Some(leg) if min.change_id != ChangeId::START => leg.min = Some(*min),
                Some(_) => {}
                // An unknown source cannot be waited for; a retired one has reached its end.
                None if self.retired.iter().any(|last| last.source == min.source) => {}
                None if !self.is_unknown(min) => {}
                None => return Err(Reason::MinTokenNotReached),
            }
        }
        Ok(())
    }
}

/// True for a reader that has had all changes of a source, or none of them.
fn has_all(at: &SourceCursor, last: &SourceCursor) -> bool {
    at.change_id == ChangeId::START || (at.epoch, at.change_id) >= (last.epoch, last.change_id)
}

impl Reader {
    /// Adds a source that has appeared: from its place in the reader's token, or from the
    /// beginning.
    pub(super) fn add_leg(&mut self, source: PartitionId) {
        if !self.terms.is_about(source) {
            return;
        }
        let carried = self.carried.iter().position(|at| at.source == source);
        if carried.is_none() && self.legs.len() + self.carried.len() >= TOKEN_SOURCES_MAX {
            self.refusal = Some(Reason::ResyncToken);
            return;
        }
        let leg = match carried {
            Some(index) => Leg::new(self.carried.remove(index)),
            None => Leg::at_start(source),
        };
        let Err(at) = self.legs.binary_search_by_key(&source, Leg::source) else { return };
        self.legs.insert(at, leg);
    }

    /// Removes a source that was retired.
    pub(super) fn remove_leg(&mut self, last: &SourceCursor) {
        let leg = self.legs.iter().position(|leg| leg.source() == last.source);
        let carried = self.carried.iter().position(|at| at.source == last.source);
        let at = match (leg, carried) {
            (Some(index), _) => self.legs.remove(index).at,
            (None, Some(index)) => self.carried.remove(index),
            (None, None) => return,
        };
        if !has_all(&at, last) {
            self.refusal = Some(Reason::ResyncFloor);
        }
    }

    /// True when a new fetch continues this lingering reader.
    pub(super) fn goes_on_as(&self, asked: &Reader) -> bool {
        let is_same_cursor = |(kept, asked): (&Leg, &Leg)| kept.at == asked.at;
        self.is_lingering()
            && self.refusal.is_none()
            && self.scope == asked.scope
            && self.head.session_id == asked.head.session_id
            && self.terms == asked.terms
            && self.legs.len() == asked.legs.len()
            && self.legs.iter().zip(&asked.legs).all(is_same_cursor)
            && self.carried == asked.carried
    }
}
