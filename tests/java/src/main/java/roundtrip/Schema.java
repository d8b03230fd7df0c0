package roundtrip;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.Node;

/**
 * The names in the schema: which messages there are, which fields each has, and of what kind.
 *
 * <p>Only names and kinds: where a field lies is the generated codecs' business.
 */
record Schema(Map<Integer, Message> messages)
{
    /** How a field is got from a generated decoder and put into an encoder. */
    enum Kind
    {
        UNSIGNED, SIGNED, TEXT, BYTES, ENUM, SET, COMPOSITE
    }

    /** A field, or a member of a composite or a set; the length is that of an array. */
    record Field(String name, Kind kind, int length, List<Field> members)
    {
    }

    /** A message or a group: fields, then groups, then data. */
    record Message(String name, List<Field> fields, List<Message> groups, List<String> data)
    {
    }

    static Schema parse(final Path path) throws Exception
    {
        final Document document =
            DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(path.toFile());
        final Map<String, Field> types = new LinkedHashMap<>();
        for (final Element list : children(document.getDocumentElement(), "types"))
        {
            for (final Element type : children(list, null))
            {
                final Field field = type(type);
                types.put(field.name(), field);
            }
        }
        final Map<Integer, Message> messages = new LinkedHashMap<>();
        for (final Element message : children(document.getDocumentElement(), "sbe:message"))
        {
            messages.put(Integer.valueOf(message.getAttribute("id")), message(message, types));
        }
        return new Schema(messages);
    }

    private static Field type(final Element element)
    {
        final String name = element.getAttribute("name");
        final List<Field> members = new ArrayList<>();
        switch (element.getTagName())
        {
            case "enum":
                return new Field(name, Kind.ENUM, 1, members);
            case "set":
                for (final Element choice : children(element, "choice"))
                {
                    members.add(new Field(choice.getAttribute("name"), Kind.SET, 1, List.of()));
                }
                return new Field(name, Kind.SET, 1, members);
            case "composite":
                for (final Element member : children(element, null))
                {
                    members.add(type(member));
                }
                return new Field(name, Kind.COMPOSITE, 1, members);
            case "type":
                final String length = element.getAttribute("length");
                final int count = length.isEmpty() ? 1 : Integer.parseInt(length);
                return primitive(name, element.getAttribute("primitiveType"), count);
            default:
                throw new IllegalStateException("unknown element " + element.getTagName());
        }
    }

    private static Field primitive(final String name, final String type, final int length)
    {
        final Kind kind = "char".equals(type) ? Kind.TEXT :
            length > 1 ? Kind.BYTES :
            type.startsWith("uint") ? Kind.UNSIGNED : Kind.SIGNED;
        return new Field(name, kind, length, List.of());
    }

    private static Message message(final Element element, final Map<String, Field> types)
    {
        final List<Field> fields = new ArrayList<>();
        final List<Message> groups = new ArrayList<>();
        final List<String> data = new ArrayList<>();
        for (final Element child : children(element, null))
        {
            final String name = child.getAttribute("name");
            switch (child.getTagName())
            {
                case "field" -> fields.add(field(name, child.getAttribute("type"), types));
                case "group" -> groups.add(message(child, types));
                case "data" -> data.add(name);
                default -> throw new IllegalStateException("unknown element in " + name);
            }
        }
        return new Message(element.getAttribute("name"), fields, groups, data);
    }

    private static Field field(
        final String name, final String typeName, final Map<String, Field> types)
    {
        final Field type = types.get(typeName);
        if (type == null)
        {
            return primitive(name, typeName, 1);
        }
        return new Field(name, type.kind(), type.length(), type.members());
    }

    /** Child elements with the tag, or all of them. */
    private static List<Element> children(final Element parent, final String tag)
    {
        final List<Element> found = new ArrayList<>();
        for (Node node = parent.getFirstChild(); node != null; node = node.getNextSibling())
        {
            if (node instanceof Element element
                && (tag == null || tag.equals(element.getTagName())))
            {
                found.add(element);
            }
        }
        return found;
    }
}
