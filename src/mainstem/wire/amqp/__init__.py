"""AMQP 0-9-1 on the wire: bytes to events and back. Pure: no socket, no clock, no broker.

Hot, compiled where possible, work per run of messages:

    scan.py       Scanner(frame_max, channel_max, max_body_bytes)      one for each connection
                  .scan(buffer: bytearray, start, end) -> (used up to, events)
                  .forget(channel)  .heartbeats  .held_bytes
    events.py     Publishes, Acks, Method, Refused
    records.py    encode_records(out, first_index, publishes, i, j)
                  encode_record(out, index, publishes, i, properties, headers)
    deliver.py    Deliveries(channel, consumer_tag, frame_max, with_offset=False)      one for each consumer
                  .encode(out, delivery_tag, again, batch, first, stop) -> next delivery tag
                  .encode_one(out, delivery_tag, again, batch, index, extra)
                  .encode_message(out, delivery_tag, route, properties, body)
                  encode_get_ok(out, place, batch, index, extra)
                  encode_return(out, frame_max, code, text, publishes, i)

Everything else, one message or method at a time:

    methods.py    decode(payload) -> pamqp frame; append(out, channel, frame); append_ack, append_nack
    properties.py read(raw) -> Wanted; headers(raw); patch(raw, ...); without_bcc; with_reply_to
    convert.py    to_amqp(headers, timestamp_ms, max_bytes), to_kafka(raw): one table for both
    message.py    message(batch, index, extra, frame_max), StreamMessages: any record as a message
    dead.py       with_deaths(raw, deaths): the x-death of a dead letter
    aside.py      messages that do not lie in one piece
    tables.py     field tables as raw entries, so that a value nobody touches keeps its type
    errors.py     AmqpError
"""
