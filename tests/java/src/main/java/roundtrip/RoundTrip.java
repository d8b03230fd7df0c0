package roundtrip;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Reads the frames that Rust wrote with the codecs that the SBE tool generated, writes what it
 * read as text, and encodes the same values again with the generated encoders.
 *
 * <p>Reads {@code frames.bin} from one folder, writes {@code frames.txt} and {@code frames.bin}
 * into another; the form of both is told in {@code crates/wire/examples/wire_vectors.rs}. Judges
 * nothing: whoever wrote the frames compares. Every template of the schema must occur.
 */
public final class RoundTrip
{
    private static final int SOFH_LENGTH = 6;
    private static final int SBE_LITTLE_ENDIAN = 0xEB50;

    private RoundTrip()
    {
    }

    public static void main(final String[] args) throws Exception
    {
        final Schema schema = Schema.parse(Path.of(args[0]));
        final byte[] input = Files.readAllBytes(Path.of(args[1], "frames.bin"));
        final StringBuilder text = new StringBuilder();
        final Output output = new Output(input.length);
        final Codec codec = new Codec(schema);

        int offset = 0;
        int frameCount = 0;
        while (offset < input.length)
        {
            final int length = frameLength(input, offset);
            final byte[] message =
                Arrays.copyOfRange(input, offset + SOFH_LENGTH, offset + length);
            final byte[] again = codec.roundTrip(message, frameCount, text);
            output.putFrame(again);
            offset += length;
            frameCount++;
        }
        codec.requireEveryTemplate();
        Files.write(Path.of(args[2], "frames.bin"), output.bytes());
        Files.writeString(Path.of(args[2], "frames.txt"), text, StandardCharsets.US_ASCII);
        System.out.println("Java: " + frameCount + " frames of " + schema.messages().size()
            + " messages read and written again");
    }

    private static int frameLength(final byte[] input, final int offset) throws IOException
    {
        final ByteBuffer header =
            ByteBuffer.wrap(input, offset, SOFH_LENGTH).order(ByteOrder.BIG_ENDIAN);
        final int length = header.getInt();
        final int encoding = Short.toUnsignedInt(header.getShort());
        if (encoding != SBE_LITTLE_ENDIAN || length < SOFH_LENGTH || offset + length > input.length)
        {
            throw new IOException("no frame at offset " + offset);
        }
        return length;
    }

    /** Frames one after another. */
    private static final class Output
    {
        private final ByteBuffer buffer;

        Output(final int inputLength)
        {
            buffer = ByteBuffer.allocate(2 * inputLength).order(ByteOrder.BIG_ENDIAN);
        }

        void putFrame(final byte[] message)
        {
            buffer.putInt(SOFH_LENGTH + message.length);
            buffer.putShort((short)SBE_LITTLE_ENDIAN);
            buffer.put(message);
        }

        byte[] bytes()
        {
            return Arrays.copyOf(buffer.array(), buffer.position());
        }
    }
}
