-- Clicks of a web shop become visits, and visitors per minute.

-- Two minutes: how late a click may come, and so how long a result waits for it.
CREATE STREAM clicks (visitor STRING, page STRING, at TIMESTAMP)
  WITH (topic = 'clicks', format = 'json', timestamp = 'at', watermark = '2 minutes');

-- A visit ends after five minutes without a click. Its row comes out when the watermark has passed that.
CREATE STREAM visits WITH (topic = 'visits', key = 'visitor') AS
  SELECT visitor, session_window.start AS began, max(at) AS ended, count(*) AS clicks,
         min_by(page, at) AS first_page, bool_or(page = '/thanks') AS bought
  FROM clicks
  GROUP BY visitor, session_window(at, '5 minutes');

-- Visitors per minute, estimated: state stays small, however many there are.
CREATE STREAM visitors WITH (topic = 'visitors', key = 'minute') AS
  SELECT window.start AS minute, count(*) AS clicks, approx_count_distinct(visitor) AS visitors
  FROM clicks
  GROUP BY window(at, '1 minute');

-- The same, exact: first a row for each visitor and minute, then these are counted.
CREATE VIEW visitor_minutes AS
  SELECT window AS span, visitor, count(*) AS clicks FROM clicks GROUP BY window(at, '1 minute'), visitor;

CREATE STREAM visitors_exact WITH (topic = 'visitors-exact', key = 'minute') AS
  SELECT window.start AS minute, sum(clicks) AS clicks, count(*) AS visitors
  FROM visitor_minutes
  GROUP BY window(span, '1 minute');
