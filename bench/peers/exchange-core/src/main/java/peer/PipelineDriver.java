package peer;

import exchange.core2.core.ExchangeApi;
import exchange.core2.core.ExchangeCore;
import exchange.core2.core.common.BalanceAdjustmentType;
import exchange.core2.core.common.api.binary.BatchAddSymbolsCommand;
import exchange.core2.core.common.cmd.CommandResultCode;
import exchange.core2.core.common.cmd.OrderCommand;
import exchange.core2.core.common.cmd.OrderCommandType;
import exchange.core2.core.common.config.ExchangeConfiguration;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;

/** The peer as it is meant to be run: a thread each for grouping, risk, matching and results. */
final class PipelineDriver implements Driver {
    /** Makes the peer's threads, and remembers them. */
    static final class Threads implements ThreadFactory {
        final List<Thread> made = new CopyOnWriteArrayList<>();

        @Override
        public Thread newThread(Runnable work) {
            Thread thread = new Thread(work, "peer-" + made.size());
            thread.setDaemon(true);
            made.add(thread);
            return thread;
        }
    }

    private final Threads threads;
    private final ExchangeCore core;
    private final Semaphore done = new Semaphore(0);
    private OrderCommand[] block;
    private int answered;
    private int expected;

    PipelineDriver(ExchangeConfiguration config, Threads threads) {
        this.threads = threads;
        core = ExchangeCore.builder()
                .exchangeConfiguration(config)
                .resultsConsumer(this::result)
                .build();
        core.startup();
    }

    /** On the thread of results; what it reads was written before the commands were published. */
    private void result(OrderCommand answer, long sequence) {
        if (expected == 0 || answer.command == OrderCommandType.GROUPING_CONTROL) {
            return;
        }
        block[answered].resultCode = answer.resultCode;
        block[answered].matcherEvent = answer.matcherEvent;
        answered++;
        if (answered == expected) {
            done.release();
        }
    }

    @Override
    public void addSymbol(int id) throws Exception {
        var command = new BatchAddSymbolsCommand(Main.symbol(id));
        CommandResultCode code = core.getApi().submitBinaryDataAsync(command).get();
        if (code != CommandResultCode.SUCCESS) {
            throw new IllegalStateException("symbol " + id + ": " + code);
        }
    }

    @Override
    public void play(OrderCommand[] commands, int count) throws Exception {
        block = commands;
        answered = 0;
        expected = count;
        ExchangeApi api = core.getApi();
        for (int at = 0; at < count; at++) {
            OrderCommand c = commands[at];
            switch (c.command) {
                case PLACE_ORDER -> api.placeNewOrder(0, 0, 1, c.orderId, 0, c.price,
                        c.reserveBidPrice, c.size, c.action, c.orderType, c.symbol, c.uid);
                case CANCEL_ORDER -> api.cancelOrder(0, 0, 1, c.orderId, c.symbol, c.uid);
                case MOVE_ORDER ->
                        api.moveOrder(0, 0, 1, c.price, c.orderId, c.symbol, c.uid);
                case REDUCE_ORDER ->
                        api.reduceOrder(0, 0, 1, c.size, c.orderId, c.symbol, c.uid);
                case ADD_USER -> api.createUser(0, 0, 1, c.uid);
                case BALANCE_ADJUSTMENT -> api.balanceAdjustment(0, 0, 1, c.uid, c.orderId,
                        c.symbol, c.price, BalanceAdjustmentType.ADJUSTMENT);
                default -> throw new IllegalStateException("no such command: " + c.command);
            }
        }
        done.acquire();
        expected = 0;
    }

    @Override
    public long cpuNanos() {
        long sum = 0;
        for (Thread thread : threads.made) {
            long nanos = ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId());
            sum += Math.max(0, nanos); // -1 when it has ended
        }
        return sum;
    }

    @Override
    public String cpuByThread() {
        Map<String, Long> byName = new TreeMap<>();
        for (Thread thread : threads.made) {
            long nanos = ManagementFactory.getThreadMXBean().getThreadCpuTime(thread.getId());
            if (nanos > 0) {
                byName.merge(thread.getName(), nanos, Long::sum);
            }
        }
        StringBuilder json = new StringBuilder("{");
        byName.forEach((name, nanos) -> json.append(json.length() > 1 ? "," : "")
                .append('"').append(name).append("\":").append(nanos / 1_000_000));
        return json.append('}').toString();
    }

    @Override
    public long liveOrders() {
        return -1;
    }

    @Override
    public void close() {
        core.shutdown();
    }
}
