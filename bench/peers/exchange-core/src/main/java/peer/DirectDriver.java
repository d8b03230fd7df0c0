package peer;

import exchange.core2.core.common.CoreSymbolSpecification;
import exchange.core2.core.common.OrderAction;
import exchange.core2.core.common.cmd.CommandResultCode;
import exchange.core2.core.common.cmd.OrderCommand;
import exchange.core2.core.common.config.ExchangeConfiguration;
import exchange.core2.core.orderbook.OrderBookDirectImpl;
import exchange.core2.core.processors.MatchingEngineRouter;
import exchange.core2.core.processors.RiskEngine;
import exchange.core2.core.processors.SharedPool;
import exchange.core2.core.processors.journaling.DummySerializationProcessor;
import java.lang.management.ManagementFactory;

/**
 * The peer's engines on the calling thread, without its pipeline: risk check, matching, settlement,
 * command by command. Nothing is handed over, nothing waits: its cost at best.
 */
final class DirectDriver implements Driver {
    private final RiskEngine risk;
    private final MatchingEngineRouter matching;
    private long sequence;
    private long cpuNanos;

    DirectDriver(ExchangeConfiguration config) {
        SharedPool pool = new SharedPool(64, 16, 1);
        var nothing = DummySerializationProcessor.INSTANCE;
        risk = new RiskEngine(0, 1, nothing, pool, config);
        matching = new MatchingEngineRouter(
                0, 1, nothing, OrderBookDirectImpl::new, pool, config);
    }

    @Override
    public void addSymbol(int id) {
        CoreSymbolSpecification spec = Main.symbol(id);
        risk.getSymbolSpecificationProvider().addSymbol(spec);
        matching.getOrderBooks().put(id, matching.getOrderBookFactory().create(
                spec,
                matching.getObjectsPool(),
                matching.getEventsHelper(),
                matching.getLoggingCfg()));
    }

    @Override
    public void play(OrderCommand[] block, int count) {
        long before = threadCpuNanos();
        for (int at = 0; at < count; at++) {
            OrderCommand command = block[at];
            command.resultCode = CommandResultCode.NEW;
            command.matcherEvent = null;
            sequence++;
            risk.preProcessCommand(sequence, command);
            matching.processOrder(sequence, command);
            risk.handlerRiskRelease(sequence, command);
        }
        cpuNanos += threadCpuNanos() - before;
    }

    private static long threadCpuNanos() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    @Override
    public long cpuNanos() {
        return cpuNanos;
    }

    @Override
    public String cpuByThread() {
        return "null";
    }

    @Override
    public long liveOrders() {
        long[] live = {0};
        matching.getOrderBooks().forEachValue(book -> live[0] +=
                book.getOrdersNum(OrderAction.ASK) + book.getOrdersNum(OrderAction.BID));
        return live[0];
    }

    @Override
    public void close() {}
}
