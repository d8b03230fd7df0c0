package peer;

import exchange.core2.core.common.cmd.OrderCommand;

/** How commands reach the peer's risk and matching engines. */
interface Driver {
    /** Commands that may be given at once. */
    int BLOCK_LEN = 10_000;

    void addSymbol(int id) throws Exception;

    /** Plays the first {@code count} commands of a block and tells results and events to them. */
    void play(OrderCommand[] block, int count) throws Exception;

    /** Processor time of the peer's threads until now, in nanoseconds. */
    long cpuNanos();

    /** As JSON: what of it which thread took. */
    String cpuByThread();

    /** Orders that stand, or -1 when that cannot be asked. */
    long liveOrders();

    void close();
}
