package peer;

import exchange.core2.core.common.BalanceAdjustmentType;
import exchange.core2.core.common.CoreSymbolSpecification;
import exchange.core2.core.common.CoreWaitStrategy;
import exchange.core2.core.common.MatcherEventType;
import exchange.core2.core.common.MatcherTradeEvent;
import exchange.core2.core.common.OrderAction;
import exchange.core2.core.common.OrderType;
import exchange.core2.core.common.SymbolType;
import exchange.core2.core.common.cmd.CommandResultCode;
import exchange.core2.core.common.cmd.OrderCommand;
import exchange.core2.core.common.cmd.OrderCommandType;
import exchange.core2.core.common.config.ExchangeConfiguration;
import exchange.core2.core.common.config.OrdersProcessingConfiguration;
import exchange.core2.core.common.config.OrdersProcessingConfiguration.MarginTradingMode;
import exchange.core2.core.common.config.OrdersProcessingConfiguration.RiskProcessingMode;
import exchange.core2.core.common.config.PerformanceConfiguration;
import exchange.core2.core.orderbook.OrderBookDirectImpl;
import java.nio.file.Path;

/**
 * Plays a flow into exchange-core: {@code Main FLOW (direct|pipeline) (risk|no-risk)
 * [WARM_UP_PASSES PASSES]}. Prints one line of JSON. Commands are built in blocks outside of the
 * timing, which begins after the flow's opening and warm-up. A short flow is played several times,
 * each on fresh engines; the figures are of the passes after the warm-up ones. Its books are the
 * "direct" ones, which its makers name for large books.
 */
public final class Main {
    private static final int CASH = 1_000;

    /** What the timed operations came to. */
    private static final class Figures {
        long operations;
        long trades;
        long tradedLots;
        long refused;
        long cpuNanos;
        long wallNanos;
        long liveOrders;
        long opening;
        String cpuByThread = "null";

        void add(Figures pass) {
            operations += pass.operations;
            trades += pass.trades;
            tradedLots += pass.tradedLots;
            refused += pass.refused;
            cpuNanos += pass.cpuNanos;
            wallNanos += pass.wallNanos;
            liveOrders = pass.liveOrders;
            opening = pass.opening;
            cpuByThread = pass.cpuByThread;
        }

        String json() {
            return String.format(
                    "{\"operations\":%d,\"operations_per_second\":%.0f,"
                            + "\"operations_per_wall_second\":%.0f,\"trades\":%d,"
                            + "\"traded_lots\":%d,\"refused\":%d,\"live_orders\":%d,"
                            + "\"opening\":%d,\"whole_run_cpu_ms_by_thread\":%s,"
                            + "\"java\":\"%s\"}",
                    operations,
                    operations / (cpuNanos * 1e-9),
                    operations / (wallNanos * 1e-9),
                    trades,
                    tradedLots,
                    refused,
                    liveOrders,
                    opening,
                    cpuByThread,
                    System.getProperty("java.vm.version"));
        }
    }

    private final Flow flow;
    private final Driver driver;
    private final OrderCommand[] block = new OrderCommand[Driver.BLOCK_LEN];
    private long transactionId;
    private Figures figures = new Figures();

    private Main(Flow flow, Driver driver) {
        this.flow = flow;
        this.driver = driver;
        for (int at = 0; at < block.length; at++) {
            block[at] = new OrderCommand();
        }
    }

    static CoreSymbolSpecification symbol(int id) {
        return CoreSymbolSpecification.builder()
                .symbolId(id)
                .type(SymbolType.CURRENCY_EXCHANGE_PAIR)
                .baseCurrency(id)
                .quoteCurrency(CASH)
                .baseScaleK(1)
                .quoteScaleK(1)
                .build();
    }

    public static void main(String[] arguments) throws Exception {
        boolean isDirect = choice(arguments[1], "direct", "pipeline");
        boolean checksRisk = choice(arguments[2], "risk", "no-risk");
        int warmUpPasses = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 0;
        int passes = arguments.length > 4 ? Integer.parseInt(arguments[4]) : 1;
        Figures sum = new Figures();
        for (int pass = 0; pass < warmUpPasses + passes; pass++) {
            Driver driver = driver(isDirect, checksRisk);
            try (Flow flow = new Flow(Path.of(arguments[0]))) {
                Figures figures = new Main(flow, driver).run();
                if (pass >= warmUpPasses) {
                    sum.add(figures);
                }
            }
            driver.close();
        }
        System.out.println(sum.json());
        System.exit(0); // threads of its pipeline may sleep on
    }

    private static Driver driver(boolean isDirect, boolean checksRisk) {
        PipelineDriver.Threads threads = new PipelineDriver.Threads();
        ExchangeConfiguration config = ExchangeConfiguration.defaultBuilder()
                .ordersProcessingCfg(OrdersProcessingConfiguration.builder()
                        .riskProcessingMode(checksRisk
                                ? RiskProcessingMode.FULL_PER_CURRENCY
                                : RiskProcessingMode.NO_RISK_PROCESSING)
                        .marginTradingMode(MarginTradingMode.MARGIN_TRADING_DISABLED)
                        .build())
                .performanceCfg(PerformanceConfiguration.throughputPerformanceBuilder()
                        .matchingEnginesNum(1)
                        .riskEnginesNum(1)
                        .threadFactory(threads)
                        .waitStrategy(CoreWaitStrategy.BLOCKING)
                        .orderBookFactory(OrderBookDirectImpl::new)
                        .build())
                .build();
        return isDirect ? new DirectDriver(config) : new PipelineDriver(config, threads);
    }

    private static boolean choice(String given, String yes, String no) {
        if (!given.equals(yes) && !given.equals(no)) {
            throw new IllegalArgumentException("want " + yes + " or " + no + ", not " + given);
        }
        return given.equals(yes);
    }

    private Figures run() throws Exception {
        long opening = play(Long.MAX_VALUE, true);
        if (figures.refused > 0) {
            throw new IllegalStateException(figures.refused + " of the opening were refused");
        }
        play(flow.warmUp, false);
        figures = new Figures();
        long cpuBefore = driver.cpuNanos();
        figures.operations = play(flow.timed, false);
        if (figures.operations != flow.timed) {
            throw new IllegalStateException("the flow ends early");
        }
        figures.cpuNanos = driver.cpuNanos() - cpuBefore;
        figures.liveOrders = driver.liveOrders();
        figures.opening = opening;
        figures.cpuByThread = driver.cpuByThread();
        return figures;
    }

    /** The opening is what comes before the first record that asks something of an order. */
    private boolean isBuffered;

    private long play(long operations, boolean isOpening) throws Exception {
        long played = 0;
        while (played < operations) {
            int count = 0;
            while (count < block.length && played + count < operations) {
                if (!isBuffered && !flow.next()) {
                    break;
                }
                if (flow.kind == Flow.SYMBOL) {
                    driver.addSymbol(flow.symbol);
                    continue;
                }
                isBuffered = isOpening && flow.kind != Flow.USER && flow.kind != Flow.DEPOSIT;
                if (isBuffered) {
                    break;
                }
                fill(block[count]);
                count++;
            }
            if (count == 0) {
                break;
            }
            long start = System.nanoTime();
            driver.play(block, count);
            figures.wallNanos += System.nanoTime() - start;
            for (int at = 0; at < count; at++) {
                hear(block[at]);
            }
            played += count;
        }
        return played;
    }

    private void fill(OrderCommand command) {
        command.symbol = flow.symbol;
        command.uid = flow.account;
        command.orderId = flow.orderId;
        command.price = flow.price;
        command.size = flow.qty;
        command.timestamp = 1;
        switch (flow.kind) {
            case Flow.USER -> command.command = OrderCommandType.ADD_USER;
            case Flow.DEPOSIT -> {
                command.command = OrderCommandType.BALANCE_ADJUSTMENT;
                command.symbol = flow.symbol == 0 ? CASH : flow.symbol;
                command.orderId = ++transactionId;
                command.orderType = OrderType.of(BalanceAdjustmentType.ADJUSTMENT.getCode());
            }
            case Flow.PLACE -> {
                command.command = OrderCommandType.PLACE_ORDER;
                command.action = flow.isBuy ? OrderAction.BID : OrderAction.ASK;
                command.orderType = flow.isIoc ? OrderType.IOC : OrderType.GTC;
                command.reserveBidPrice = flow.price;
            }
            case Flow.CANCEL -> command.command = OrderCommandType.CANCEL_ORDER;
            case Flow.MOVE -> command.command = OrderCommandType.MOVE_ORDER;
            case Flow.REDUCE -> command.command = OrderCommandType.REDUCE_ORDER;
            default -> throw new IllegalStateException("no such record: " + flow.kind);
        }
    }

    private void hear(OrderCommand command) {
        if (command.resultCode != CommandResultCode.SUCCESS) {
            figures.refused++;
        }
        for (MatcherTradeEvent event = command.matcherEvent; event != null;
                event = event.nextEvent) {
            if (event.eventType == MatcherEventType.TRADE) {
                figures.trades++;
                figures.tradedLots += event.size;
            }
        }
        command.matcherEvent = null;
    }
}
