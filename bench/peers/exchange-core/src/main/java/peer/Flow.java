package peer;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * A flow file: a header of two counts (warm-up and timed operations, 64 bits each), then records
 * of 40 bytes, little-endian: kind, side and time in force (8 bits each), one byte of zero, symbol,
 * account (32 bits each), four bytes of zero, order id, price or amount, quantity (64 bits each);
 * a reduction's quantity is what the order loses.
 */
final class Flow implements Closeable {
    static final int USER = 1;
    static final int DEPOSIT = 2;
    static final int PLACE = 3;
    static final int CANCEL = 4;
    static final int MOVE = 5;
    static final int REDUCE = 6;
    static final int SYMBOL = 7;

    private static final int RECORD_LEN = 40;

    final long warmUp;
    final long timed;
    private final FileChannel file;
    private final ByteBuffer buffer =
            ByteBuffer.allocateDirect(RECORD_LEN * 25_000).order(ByteOrder.LITTLE_ENDIAN);

    int kind;
    boolean isBuy;
    boolean isIoc;
    int symbol;
    int account;
    long orderId;
    long price;
    long qty;

    Flow(Path path) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.READ);
        buffer.limit(16);
        while (buffer.hasRemaining()) {
            if (file.read(buffer) < 0) {
                throw new IOException("the flow has no header");
            }
        }
        buffer.flip();
        warmUp = buffer.getLong();
        timed = buffer.getLong();
        buffer.position(buffer.limit());
    }

    /** Reads the next record into the fields; false at the end. */
    boolean next() throws IOException {
        if (!buffer.hasRemaining() && !fill()) {
            return false;
        }
        kind = buffer.get();
        isBuy = buffer.get() == 0;
        isIoc = buffer.get() == 1;
        buffer.get();
        symbol = buffer.getInt();
        account = buffer.getInt();
        buffer.getInt();
        orderId = buffer.getLong();
        price = buffer.getLong();
        qty = buffer.getLong();
        return true;
    }

    private boolean fill() throws IOException {
        buffer.clear();
        while (buffer.hasRemaining() && file.read(buffer) >= 0) {
            // Until it is full or the file ends.
        }
        buffer.flip();
        if (buffer.remaining() % RECORD_LEN != 0) {
            throw new IOException("the flow ends in the middle of a record");
        }
        return buffer.hasRemaining();
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
