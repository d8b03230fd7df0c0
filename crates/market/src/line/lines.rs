//! The channels of a feed, each by its number.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::Nanos;

use super::{Channel, Handler, Line, LineConfig};
use crate::feed::Packet;

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinesError {
    /// It is of a channel beyond those that there is room for.
    #[error("channel {channel} is one more than the {channels_max} that were allowed")]
    TooManyChannels {
        /// Which.
        channel: u32,
        /// How many there may be.
        channels_max: usize,
    },
}

/// Several channels with one configuration.
#[derive(Clone, Debug)]
pub struct Lines {
    config: LineConfig,
    channels_max: usize,
    places: HashMap<u32, usize, FxBuildHasher>,
    channels: Vec<(u32, Channel)>,
}

impl Lines {
    /// No channel yet; each comes to be with its first packet, up to `channels_max`.
    #[must_use]
    pub fn new(config: LineConfig, channels_max: usize) -> Lines {
        Lines { config, channels_max, places: HashMap::default(), channels: Vec::new() }
    }

    /// Takes a packet that came on `line` at `now`.
    ///
    /// # Errors
    /// [`LinesError::TooManyChannels`]: the packet was not taken.
    pub fn packet(
        &mut self,
        line: Line,
        packet: &Packet<'_>,
        now: Nanos,
        out: &mut impl Handler,
    ) -> Result<(), LinesError> {
        self.channel_mut(packet.channel)?.packet(line, packet, now, out);
        Ok(())
    }

    /// Does for all channels what time alone demands.
    pub fn tick(&mut self, now: Nanos, out: &mut impl Handler) {
        self.channels.iter_mut().for_each(|(_, channel)| channel.tick(now, out));
    }

    /// When [`Lines::tick`] has something to do next.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.channels.iter().filter_map(|(_, channel)| channel.deadline()).min()
    }

    /// A channel, made when there is none of that number.
    ///
    /// # Errors
    /// [`LinesError::TooManyChannels`].
    pub fn channel_mut(&mut self, channel: u32) -> Result<&mut Channel, LinesError> {
        let channels_max = self.channels_max;
        let place = match self.places.get(&channel) {
            Some(place) => *place,
            None if self.channels.len() < channels_max => {
                self.channels.push((channel, Channel::new(channel, self.config)));
                let place = self.channels.len() - 1;
                self.places.insert(channel, place);
                place
            }
            None => return Err(LinesError::TooManyChannels { channel, channels_max }),
        };
        Ok(&mut self.channels[place].1)
    }

    /// All channels with their numbers, in the order in which they were first heard.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Channel)> {
        self.channels.iter().map(|(number, channel)| (*number, channel))
    }
}
