/* Logging to stderr. One process-wide level; the library itself logs only what a user can act on. */
#ifndef TENON_BASE_LOG_H
#define TENON_BASE_LOG_H

typedef enum tn_log_level { TN_LOG_ERROR, TN_LOG_WARN, TN_LOG_INFO, TN_LOG_DEBUG } tn_log_level;

/* The level starts at TN_LOG_WARN, or what the environment variable TENON_LOG names (error, warn, info, debug). */
void tn_log_set_level(tn_log_level level);
__attribute__((format(printf, 2, 3))) void tn_log(tn_log_level level, const char *format, ...);

#endif
