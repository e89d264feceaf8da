-- Orders become revenue per minute and region, in a topic and as Parquet files.

CREATE STREAM orders (id BIGINT, customer STRING, item STRING, amount DECIMAL(12, 2), at TIMESTAMP)
  WITH (topic = 'orders', format = 'json', timestamp = 'at', watermark = '30 seconds');

CREATE TABLE customers (id STRING, region STRING) WITH (format = 'csv', path = 'customers.csv', header = 'true');

CREATE STREAM revenue WITH (topic = 'revenue', format = 'json', key = 'region') AS
  SELECT window.start AS minute, c.region, sum(o.amount) AS revenue, count(*) AS orders
  FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY window(o.at, '1 minute'), c.region;

CREATE TABLE lake WITH (format = 'parquet', path = 'out/revenue') AS SELECT * FROM revenue;
