-- Gauges of hosts become percentiles per minute.

CREATE STREAM gauges (host STRING, metric STRING, value DOUBLE, at TIMESTAMP)
  WITH (topic = 'gauges', format = 'json', timestamp = 'at', watermark = '30 seconds');

-- One row for each host, metric and minute, when the minute is over.
CREATE STREAM percentiles WITH (topic = 'percentiles', key = 'host, metric') AS
  SELECT minute, host, metric, samples, p[0] AS p50, p[1] AS p90, p[2] AS p99
  FROM (
    SELECT window.start AS minute, host, metric, count(*) AS samples,
           percentile_approx(value, array(0.5, 0.9, 0.99)) AS p
    FROM gauges
    GROUP BY window(at, '1 minute'), host, metric
  );

-- The worst of each host so far, told again each time that it changes: a changelog, for a screen or a cache.
CREATE STREAM worst WITH (topic = 'worst', key = 'host, metric', output = 'changelog') AS
  SELECT host, metric, max(value) AS worst, max_by(at, value) AS at
  FROM gauges
  GROUP BY host, metric;
