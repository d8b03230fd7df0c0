//! Planted bugs, which prove that the tests of lines, of captures and of codecs find bugs
//! of their kind.
//!
//! [`line`](crate::line), [`recognise`](crate::recognise) and the codecs with a memory call [`is`]
//! where a planted bug takes effect.

weir_plant::plants! {
    /// A planted bug of feeds.
    pub enum Plant {
        /// A sender that begins again in its session is taken for repetitions.
        RestartRepeated,
        /// The first packet's copy on the other line restarts the session again.
        RestartByCopy,
        /// Packets sent before a restart are taken for those after it.
        OldFollowed,
        /// Positions in the stream are not compared.
        PositionUnread,
        /// Other content under known numbers is a repetition.
        ContentUnread,
        /// A later send time does not matter.
        TimeUnread,
        /// A session that was left never comes back.
        LeftForGood,
        /// Packets that look old are never followed, although no other comes.
        OldForEver,
        /// A session whose end was announced comes back.
        EndedComesBack,
        /// Two packets in a row are enough to follow another run.
        TwoInARow,
        /// Packets in a row need not go on where the one before ends.
        RowUnordered,
        /// A header is enough to take a datagram for one of a feed.
        HeaderIsEnough,
        /// A quote of one side completes the best bid and offer of before a restart.
        BestOutlivesRun,
        /// A halt of before a restart holds behind it.
        ConditionOutlivesRun,
        /// The messages that a channel has given up are added without a bound.
        ChannelLostUnbounded,
    }
}
