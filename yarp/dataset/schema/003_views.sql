CREATE VIEW tool_calls_flat AS
SELECT
  s.unix_user,
  s.agent,
  s.native_session_id,
  s.started_at_ms AS session_started_at_ms,
  c.*,
  r.result_key,
  r.returned_at_ms,
  r.is_error,
  r.output_text,
  r.output_json,
  r.result_sha256,
  coalesce(oc.observation_count, 0) AS call_observation_count,
  coalesce(orr.observation_count, 0) AS result_observation_count
FROM tool_calls c
JOIN sessions s USING (session_key)
LEFT JOIN tool_results r ON r.call_key = c.call_key
LEFT JOIN (
  SELECT call_key, count(*) AS observation_count FROM observations
  WHERE call_key IS NOT NULL GROUP BY call_key
) oc ON oc.call_key = c.call_key
LEFT JOIN (
  SELECT result_key, count(*) AS observation_count FROM observations
  WHERE result_key IS NOT NULL GROUP BY result_key
) orr ON orr.result_key = r.result_key
WHERE c.call_key NOT IN (SELECT call_key FROM tool_results GROUP BY call_key HAVING count(*) > 1);

CREATE VIEW tool_call_conflicts AS
SELECT
  s.unix_user,
  s.agent,
  s.native_session_id,
  c.call_key,
  c.native_call_id,
  c.tool_name,
  c.called_at_ms,
  r.result_key,
  r.returned_at_ms,
  r.is_error,
  r.output_text,
  r.output_json,
  r.result_sha256,
  coalesce(o.observation_count, 0) AS result_observation_count,
  count(*) OVER (PARTITION BY c.call_key) AS variant_count
FROM tool_calls c
JOIN sessions s USING (session_key)
JOIN tool_results r ON r.call_key = c.call_key
LEFT JOIN (
  SELECT result_key, count(*) AS observation_count FROM observations
  WHERE result_key IS NOT NULL GROUP BY result_key
) o ON o.result_key = r.result_key
QUALIFY count(*) OVER (PARTITION BY c.call_key) > 1;
