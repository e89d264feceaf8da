-- Log lines that rsyslog brings: counts, rates of errors, and alerts.

CREATE STREAM lines WITH (topic = 'logs', format = 'text');

-- 2026-11-15T20:32:40.120+00:00 web-1 nginx[812] err upstream timed out
-- Lines that do not look like that have no time, and are left out. The others are a topic that anyone can use.
CREATE STREAM entries
  WITH (topic = 'log-entries', key = 'host', timestamp = 'at', watermark = '10 seconds') AS
  SELECT *
  FROM (
    SELECT try_to_timestamp(regexp_extract(value, r'^(\S+) ', 1)) AS at,
           regexp_extract(value, r'^\S+ (\S+) ', 1) AS host,
           regexp_extract(value, r'^\S+ \S+ ([^\[\s:]+)', 1) AS program,
           regexp_extract(value, r'^\S+ \S+ \S+ (\w+) ', 1) AS severity,
           regexp_extract(value, r'^\S+ \S+ \S+ \w+ (.*)$', 1) AS message
    FROM lines
  )
  WHERE at IS NOT NULL;

CREATE STREAM counts WITH (topic = 'log-counts', key = 'program') AS
  SELECT window.start AS minute, program, severity, count(*) AS lines
  FROM entries
  GROUP BY window(at, '1 minute'), program, severity;

CREATE STREAM rates WITH (topic = 'log-rates', key = 'program') AS
  SELECT window.start AS minute, program, count(*) AS lines,
         count_if(severity IN ('err', 'crit', 'alert', 'emerg')) AS errors,
         count_if(severity IN ('err', 'crit', 'alert', 'emerg')) / count(*) AS error_rate
  FROM entries
  GROUP BY window(at, '1 minute'), program;

-- More than every fifth line an error, of enough lines to mean something.
CREATE STREAM alerts WITH (topic = 'log-alerts', key = 'program') AS
  SELECT *, concat(program, ': ', CAST(round(100 * error_rate) AS INT), ' % of ', lines, ' lines are errors') AS alert
  FROM rates
  WHERE error_rate > 0.2 AND lines >= 10;
