package roundtrip;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.agrona.ExpandableArrayBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import weir.MessageHeaderDecoder;
import weir.MessageHeaderEncoder;

/**
 * Takes a message through the generated decoder, into text, and through the generated encoder.
 *
 * <p>The generated methods are called by the names that the schema gives; each field's value goes
 * from getter to setter in the type that the generated code chose, and nowhere are bytes copied
 * from the one message to the other. Fields are visited in the schema's order, as SBE demands.
 */
final class Codec
{
    private static final String PACKAGE = "weir.";

    private final Schema schema;
    private final Set<Integer> seen = new HashSet<>();
    private final Map<String, Method> methods = new HashMap<>();

    Codec(final Schema schema)
    {
        this.schema = schema;
    }

    /**
     * Appends the fields of the message, the file's {@code index}-th, to {@code text}; returns the
     * message encoded again.
     */
    byte[] roundTrip(final byte[] message, final int index, final StringBuilder text)
        throws Exception
    {
        final UnsafeBuffer source = new UnsafeBuffer(message);
        final MessageHeaderDecoder header = new MessageHeaderDecoder().wrap(source, 0);
        final int templateId = header.templateId();
        final Schema.Message layout = schema.messages().get(templateId);
        if (layout == null)
        {
            throw new IllegalStateException("template " + templateId + " is not in the schema");
        }
        seen.add(templateId);
        final ExpandableArrayBuffer target = new ExpandableArrayBuffer();
        final Object decoder = create(layout.name() + "Decoder");
        final Object encoder = create(layout.name() + "Encoder");
        call(decoder, "wrapAndApplyHeader", source, 0, header);
        call(encoder, "wrapAndApplyHeader", target, 0, new MessageHeaderEncoder());

        body(layout, layout.name() + "." + index + ".", decoder, encoder, text);
        final int length =
            MessageHeaderEncoder.ENCODED_LENGTH + (int)call(encoder, "encodedLength");
        return bytes(target, length);
    }

    void requireEveryTemplate()
    {
        final Set<Integer> missing = new HashSet<>(schema.messages().keySet());
        missing.removeAll(seen);
        if (!missing.isEmpty())
        {
            throw new IllegalStateException("templates without a frame: " + missing);
        }
    }

    private void body(
        final Schema.Message layout,
        final String prefix,
        final Object decoder,
        final Object encoder,
        final StringBuilder text) throws Exception
    {
        for (final Schema.Field field : layout.fields())
        {
            line(text, prefix + field.name(), field(field, decoder, encoder));
        }
        for (final Schema.Message group : layout.groups())
        {
            group(group, prefix + group.name() + ".", decoder, encoder, text);
        }
        for (final String data : layout.data())
        {
            line(text, prefix + data, data(data, decoder, encoder));
        }
    }

    /** Moves a field's value from the decoder to the encoder and returns it as text. */
    private String field(final Schema.Field field, final Object decoder, final Object encoder)
        throws Exception
    {
        final String name = field.name();
        return switch (field.kind())
        {
            case UNSIGNED, SIGNED, ENUM ->
            {
                final Object value = call(decoder, name);
                call(encoder, name, value);
                yield field.kind() == Schema.Kind.ENUM ?
                    ((Enum<?>)value).name() : number(value, field.kind());
            }
            case BYTES -> HexFormat.of().formatHex(array(field, decoder, encoder));
            case TEXT -> text(array(field, decoder, encoder));
            case SET -> set(field, decoder, encoder);
            case COMPOSITE ->
            {
                final Object from = call(decoder, name);
                final Object to = call(encoder, name);
                final List<String> members = new ArrayList<>();
                for (final Schema.Field member : field.members())
                {
                    members.add(field(member, from, to));
                }
                yield String.join(",", members);
            }
        };
    }

    /** The characters before the first NUL. */
    private static String text(final byte[] padded)
    {
        int length = 0;
        while (length < padded.length && padded[length] != 0)
        {
            length++;
        }
        return new String(padded, 0, length, StandardCharsets.US_ASCII);
    }

    private byte[] array(final Schema.Field field, final Object decoder, final Object encoder)
        throws Exception
    {
        final byte[] value = new byte[field.length()];
        final String suffix = capital(field.name());
        if (has(decoder, "get" + suffix, 3))
        {
            call(decoder, "get" + suffix, value, 0, value.length);
            call(encoder, "put" + suffix, value, 0, value.length);
        }
        else
        {
            call(decoder, "get" + suffix, value, 0);
            call(encoder, "put" + suffix, value, 0);
        }
        return value;
    }

    private String set(final Schema.Field field, final Object decoder, final Object encoder)
        throws Exception
    {
        final Object from = call(decoder, field.name());
        final Object to = call(encoder, field.name());
        call(to, "clear");
        final List<String> choices = new ArrayList<>();
        for (final Schema.Field choice : field.members())
        {
            final boolean isOn = (boolean)call(from, choice.name());
            call(to, choice.name(), isOn);
            if (isOn)
            {
                choices.add(choice.name());
            }
        }
        return String.join(",", choices);
    }

    private void group(
        final Schema.Message group,
        final String prefix,
        final Object decoder,
        final Object encoder,
        final StringBuilder text) throws Exception
    {
        final Object from = call(decoder, group.name());
        final int count = (int)call(from, "count");
        final Object to = call(encoder, group.name() + "Count", count);
        line(text, prefix + "count", String.valueOf(count));
        for (int i = 0; i < count; i++)
        {
            call(from, "next");
            call(to, "next");
            body(group, prefix + i + ".", from, to, text);
        }
    }

    private String data(final String name, final Object decoder, final Object encoder)
        throws Exception
    {
        final byte[] value = new byte[(int)call(decoder, name + "Length")];
        call(decoder, "get" + capital(name), value, 0, value.length);
        call(encoder, "put" + capital(name), value, 0, value.length);
        return HexFormat.of().formatHex(value);
    }

    private static void line(final StringBuilder text, final String name, final String value)
    {
        text.append(name).append('=').append(value).append('\n');
    }

    private static String number(final Object value, final Schema.Kind kind)
    {
        // Only the widest unsigned type does not fit the Java type that the tool gives it.
        return kind == Schema.Kind.UNSIGNED && value instanceof Long wide ?
            Long.toUnsignedString(wide) : String.valueOf(value);
    }

    private static byte[] bytes(final MutableDirectBuffer buffer, final int length)
    {
        final byte[] bytes = new byte[length];
        buffer.getBytes(0, bytes);
        return bytes;
    }

    private static Object create(final String name) throws Exception
    {
        return Class.forName(PACKAGE + name).getDeclaredConstructor().newInstance();
    }

    private static String capital(final String name)
    {
        return Character.toUpperCase(name.charAt(0)) + name.substring(1);
    }

    private boolean has(final Object target, final String name, final int count)
    {
        return Arrays.stream(target.getClass().getMethods())
            .anyMatch(method -> method.getName().equals(name)
                && method.getParameterCount() == count);
    }

    /** Calls the generated method of that name that takes these arguments. */
    private Object call(final Object target, final String name, final Object... arguments)
        throws Exception
    {
        final String key = target.getClass().getName() + "." + name
            + Arrays.toString(Arrays.stream(arguments).map(Object::getClass).toArray());
        Method method = methods.get(key);
        if (method == null)
        {
            method = Arrays.stream(target.getClass().getMethods())
                .filter(found -> found.getName().equals(name))
                .filter(found -> takes(found.getParameterTypes(), arguments))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("no generated method " + key));
            methods.put(key, method);
        }
        try
        {
            return method.invoke(target, arguments);
        }
        catch (final InvocationTargetException error)
        {
            throw new IllegalStateException(key, error.getCause());
        }
    }

    private static boolean takes(final Class<?>[] types, final Object[] arguments)
    {
        if (types.length != arguments.length)
        {
            return false;
        }
        for (int i = 0; i < types.length; i++)
        {
            if (!boxed(types[i]).isInstance(arguments[i]))
            {
                return false;
            }
        }
        return true;
    }

    private static Class<?> boxed(final Class<?> type)
    {
        return java.lang.invoke.MethodType.methodType(type).wrap().returnType();
    }
}
