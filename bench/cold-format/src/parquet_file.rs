//! Parquet, without Arrow: one column for each field, the attributes as bytes.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use weir_wire::Message;
use weir_wire::delivery::OrderRow;
use weir_wire::rows::put_attributes;

use crate::data::Data;
use crate::{Format, Packer};

const GROUP_ROWS: usize = 65_536;
const ROW_LEN: usize = 159;

pub struct ParquetFile {
    pub packer: Packer,
}

fn schema() -> String {
    let mut text = "message order_row {\n".to_owned();
    for field in OrderRow::FIELDS {
        let kind = match field.size {
            8 => "INT64",
            16 => "FIXED_LEN_BYTE_ARRAY (16)",
            _ => "INT32",
        };
        text.push_str(&format!("required {kind} {};\n", field.name));
    }
    text + "required BYTE_ARRAY attributes;\n}"
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl Format for ParquetFile {
    fn name(&self) -> String {
        format!("Parquet, {:?}", self.packer)
    }

    fn write(&self, data: &Data) -> Vec<u8> {
        let compression = match self.packer {
            Packer::Lz4 => Compression::LZ4_RAW,
            Packer::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level).expect("a level")),
        };
        let properties = WriterProperties::builder().set_compression(compression).build();
        let schema = Arc::new(parse_message_type(&schema()).expect("it is a schema"));
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))
            .expect("writes to memory");
        for rows in data.rows.chunks(GROUP_ROWS) {
            let mut group = writer.next_row_group().expect("writes to memory");
            for field in OrderRow::FIELDS {
                let bytes = |row: &(Vec<u8>, Vec<u8>)| {
                    row.0[field.offset..field.offset + field.size].to_vec()
                };
                let mut column = group.next_column().expect("in order").expect("as many");
                match field.size {
                    8 => {
                        let values: Vec<i64> =
                            rows.iter().map(|r| word(&bytes(r)) as i64).collect();
                        column.typed::<Int64Type>().write_batch(&values, None, None)
                    }
                    16 => {
                        let values: Vec<FixedLenByteArray> =
                            rows.iter().map(|r| ByteArray::from(bytes(r)).into()).collect();
                        column.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)
                    }
                    _ => {
                        let values: Vec<i32> =
                            rows.iter().map(|r| word(&bytes(r)) as i32).collect();
                        column.typed::<Int32Type>().write_batch(&values, None, None)
                    }
                }
                .expect("writes to memory");
                column.close().expect("writes to memory");
            }
            let mut column = group.next_column().expect("in order").expect("as many");
            let values: Vec<ByteArray> = rows.iter().map(|r| r.1.clone().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None).expect("to memory");
            column.close().expect("writes to memory");
            group.close().expect("writes to memory");
        }
        writer.into_inner().expect("writes to memory")
    }

    fn read(&self, file: &[u8], firm: u32, out: &mut Vec<u8>) -> usize {
        let file = Bytes::copy_from_slice(file);
        let reader = SerializedFileReader::new(file).expect("it was written");
        let mut total = 0;
        for index in 0..reader.num_row_groups() {
            let group = reader.get_row_group(index).expect("it was written");
            total += read_group(group.as_ref(), firm, out);
        }
        total
    }
}

fn read_group(group: &dyn RowGroupReader, firm: u32, out: &mut Vec<u8>) -> usize {
    let count = group.metadata().num_rows() as usize;
    let mut rows = vec![0u8; count * ROW_LEN];
    let key = OrderRow::FIELDS.iter().position(|f| f.name == "firm_id").expect("a field");
    read_column(group, key, count, &mut rows);
    let field = OrderRow::FIELDS[key];
    let is_wanted = |row: &[u8]| firm == 0 || row[field.offset..][..4] == firm.to_le_bytes();
    if !rows.chunks_exact(ROW_LEN).any(is_wanted) {
        return 0;
    }
    (0..OrderRow::FIELDS.len())
        .filter(|column| *column != key)
        .for_each(|column| read_column(group, column, count, &mut rows));
    let reader = group.get_column_reader(OrderRow::FIELDS.len()).expect("it was written");
    let mut values = Vec::with_capacity(count);
    get_typed_column_reader::<ByteArrayType>(reader)
        .read_records(count, None, None, &mut values)
        .expect("it was written");
    let mut total = 0;
    for (row, attributes) in rows.chunks_exact(ROW_LEN).zip(&values) {
        if is_wanted(row) {
            out.extend_from_slice(row);
            put_attributes(attributes.data(), out);
            total += 1;
        }
    }
    total
}

fn read_column(group: &dyn RowGroupReader, column: usize, count: usize, rows: &mut [u8]) {
    let field = OrderRow::FIELDS[column];
    let reader = group.get_column_reader(column).expect("it was written");
    let to = rows.chunks_exact_mut(ROW_LEN).map(|row| &mut row[field.offset..][..field.size]);
    match field.size {
        8 => {
            let mut values = Vec::with_capacity(count);
            get_typed_column_reader::<Int64Type>(reader)
                .read_records(count, None, None, &mut values)
                .expect("it was written");
            to.zip(values).for_each(|(to, value)| to.copy_from_slice(&value.to_le_bytes()));
        }
        16 => {
            let mut values = Vec::with_capacity(count);
            get_typed_column_reader::<FixedLenByteArrayType>(reader)
                .read_records(count, None, None, &mut values)
                .expect("it was written");
            to.zip(values).for_each(|(to, value)| to.copy_from_slice(value.data()));
        }
        size => {
            let mut values = Vec::with_capacity(count);
            get_typed_column_reader::<Int32Type>(reader)
                .read_records(count, None, None, &mut values)
                .expect("it was written");
            to.zip(values).for_each(|(to, value): (_, i32)| {
                to.copy_from_slice(&value.to_le_bytes()[..size]);
            });
        }
    }
}
