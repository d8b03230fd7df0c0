//! The channels of a feed, by number.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use weir_types::Nanos;

use super::{Channel, Handler, Line, LineConfig};
use crate::Packet;

/// The reason a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinesError {
    /// The packet belongs to a channel over the limit.
    #[error("channel {channel} is one more than the {channels_max} that were allowed")]
    TooManyChannels {
        /// The number of the channel.
        channel: u32,
        /// The most channels.
        channels_max: usize,
    },
}

/// Several channels with a common configuration.
#[derive(Clone, Debug)]
pub struct Lines {
    config: LineConfig,
    channels_max: usize,
    places: HashMap<u32, usize, FxBuildHasher>,
    channels: Vec<(u32, Channel)>,
}

impl Lines {
    /// Creates an empty set; a channel's first packet creates it, up to `channels_max` channels.
    #[must_use]
    pub fn new(config: LineConfig, channels_max: usize) -> Lines {
        Lines { config, channels_max, places: HashMap::default(), channels: Vec::new() }
    }

    /// Takes a packet received on `line` at `now`.
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

    /// Takes a packet as [`Channel::arrive`] does, without running the timers.
    ///
    /// # Errors
    /// [`LinesError::TooManyChannels`]: the packet was not taken.
    pub fn arrive(
        &mut self,
        line: Line,
        packet: &Packet<'_>,
        now: Nanos,
        out: &mut impl Handler,
    ) -> Result<(), LinesError> {
        self.channel_mut(packet.channel)?.arrive(line, packet, now, out);
        Ok(())
    }

    /// Runs the timers of all channels.
    pub fn tick(&mut self, now: Nanos, out: &mut impl Handler) {
        self.channels.iter_mut().for_each(|(_, channel)| channel.tick(now, out));
    }

    /// Returns the next time at which [`Lines::tick`] has work.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.channels.iter().filter_map(|(_, channel)| channel.deadline()).min()
    }

    /// Returns the channel of this number; creates it if necessary.
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

    /// Iterates over all channels, for changes, in order of first appearance.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.channels.iter_mut().map(|(_, channel)| channel)
    }

    /// Iterates over all channels with their numbers, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Channel)> {
        self.channels.iter().map(|(number, channel)| (*number, channel))
    }
}
