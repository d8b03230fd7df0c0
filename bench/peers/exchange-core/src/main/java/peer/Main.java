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
 * Plays a flow into exchange-core: {@code Main FLOW (direct|pipeline) (risk|no-risk)}. Prints one
 * line of JSON. Commands are built in blocks outside of the timing, which begins after the flow's
 * opening and warm-up. Its books are the "direct" ones, which its makers name for large books.
 */
public final class Main {
    private static final int SYMBOLS = 100;
    private static final int CASH = 1_000;

    private final Flow flow;
    private final Driver driver;
    private final OrderCommand[] block = new OrderCommand[Driver.BLOCK_LEN];
    private long transactionId;
    private long tradedLots;
    private long trades;
    private long refused;
    private long wallNanos;

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
        Driver driver =
                isDirect ? new DirectDriver(config) : new PipelineDriver(config, threads);
        try (Flow flow = new Flow(Path.of(arguments[0]))) {
            System.out.println(new Main(flow, driver).run());
        }
        driver.close();
        System.exit(0); // threads of its pipeline may sleep on
    }

    private static boolean choice(String given, String yes, String no) {
        if (!given.equals(yes) && !given.equals(no)) {
            throw new IllegalArgumentException("want " + yes + " or " + no + ", not " + given);
        }
        return given.equals(yes);
    }

    private String run() throws Exception {
        driver.addSymbols(1, SYMBOLS);
        long opening = play(Long.MAX_VALUE, true);
        if (refused > 0) {
            throw new IllegalStateException(refused + " of the opening's commands were refused");
        }
        play(flow.warmUp, false);
        tradedLots = 0;
        trades = 0;
        refused = 0;
        wallNanos = 0;
        long cpuBefore = driver.cpuNanos();
        long operations = play(flow.timed, false);
        if (operations != flow.timed) {
            throw new IllegalStateException("the flow ends early");
        }
        double cpu = (driver.cpuNanos() - cpuBefore) * 1e-9;
        return String.format(
                "{\"operations\":%d,\"operations_per_second\":%.0f,"
                        + "\"operations_per_wall_second\":%.0f,\"trades\":%d,\"traded_lots\":%d,"
                        + "\"refused\":%d,\"live_orders\":%d,\"opening\":%d,"
                        + "\"whole_run_cpu_ms_by_thread\":%s,\"java\":\"%s\"}",
                operations,
                operations / cpu,
                operations / (wallNanos * 1e-9),
                trades,
                tradedLots,
                refused,
                driver.liveOrders(),
                opening,
                driver.cpuByThread(),
                System.getProperty("java.vm.version"));
    }

    /** The opening is what comes before the first record that has no account's money in it. */
    private boolean isBuffered;

    private long play(long operations, boolean isOpening) throws Exception {
        long played = 0;
        while (played < operations) {
            int count = 0;
            while (count < block.length && played + count < operations) {
                if (!isBuffered && !flow.next()) {
                    break;
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
            wallNanos += System.nanoTime() - start;
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
            default -> throw new IllegalStateException("no such record: " + flow.kind);
        }
    }

    private void hear(OrderCommand command) {
        if (command.resultCode != CommandResultCode.SUCCESS) {
            refused++;
        }
        for (MatcherTradeEvent event = command.matcherEvent; event != null;
                event = event.nextEvent) {
            if (event.eventType == MatcherEventType.TRADE) {
                trades++;
                tradedLots += event.size;
            }
        }
        command.matcherEvent = null;
    }
}
