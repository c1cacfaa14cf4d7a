/* The page of `tenon bench serve`: charts drawn as SVG and a table, one file without outside resources (see
 * bench_report.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "tools/bench_report.h"

#define WIDTH 460.0
#define HEIGHT 260.0
#define LEFT 62.0
#define TOP 14.0
#define RIGHT 14.0
#define BOTTOM 40.0
#define MAX_LINES 16

/* One line of a chart: y of each x; NAN leaves a gap. */
typedef struct chart_line {
  char name[32];
  double *x, *y;
  size_t count;
} chart_line;

typedef struct one_chart {
  const char *title, *x_name, *y_name;
  bool has_points; /* marks at the values */
  chart_line lines[MAX_LINES];
  size_t count;
  double x_most, y_most;
} one_chart;

static const char *const colours[] = {"#2563eb", "#dc2626", "#059669", "#d97706",
                                      "#7c3aed", "#0891b2", "#db2777", "#4d7c0f"};

static void put_text(tn_buf *out, const char *text) {
  for (; *text; text++) switch (*text) {
      case '<': tn_buf_puts(out, "&lt;"); break;
      case '>': tn_buf_puts(out, "&gt;"); break;
      case '&': tn_buf_puts(out, "&amp;"); break;
      case '"': tn_buf_puts(out, "&quot;"); break;
      default: tn_buf_putc(out, *text);
    }
}

/* ---- axes ---- */

/* A step of 1, 2 or 5 times a power of ten that divides `most` into at most `parts`. */
static double nice_step(double most, int parts) {
  double raw = most / parts, power = pow(10, floor(log10(raw)));
  double scaled = raw / power;
  return power * (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10);
}

static double place_x(const one_chart *chart, double x) {
  return LEFT + x / chart->x_most * (WIDTH - LEFT - RIGHT);
}

static double place_y(const one_chart *chart, double y) {
  return HEIGHT - BOTTOM - y / chart->y_most * (HEIGHT - TOP - BOTTOM);
}

static void measure(one_chart *chart) {
  double x_most = 0, y_most = 0;
  for (size_t l = 0; l < chart->count; l++)
    for (size_t i = 0; i < chart->lines[l].count; i++) {
      double x = chart->lines[l].x[i], y = chart->lines[l].y[i];
      if (isfinite(x) && x > x_most) x_most = x;
      if (isfinite(y) && y > y_most) y_most = y;
    }
  double x_step = nice_step(x_most > 0 ? x_most : 1, 6), y_step = nice_step(y_most > 0 ? y_most : 1, 5);
  chart->x_most = ceil((x_most > 0 ? x_most : 1) / x_step) * x_step;
  chart->y_most = ceil((y_most > 0 ? y_most : 1) / y_step) * y_step;
}

static void put_axes(const one_chart *chart, tn_buf *out) {
  double x_step = nice_step(chart->x_most, 6), y_step = nice_step(chart->y_most, 5);
  for (double y = 0; y <= chart->y_most * 1.0001; y += y_step) {
    double at = place_y(chart, y);
    tn_buf_printf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", LEFT, at,
                  WIDTH - RIGHT, at);
    tn_buf_printf(out, "<text class=\"end\" x=\"%.1f\" y=\"%.1f\">%g</text>", LEFT - 6, at + 4, y);
  }
  for (double x = 0; x <= chart->x_most * 1.0001; x += x_step)
    tn_buf_printf(out, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">%g</text>", place_x(chart, x),
                  HEIGHT - BOTTOM + 16, x);
  tn_buf_printf(out, "<text class=\"middle\" x=\"%.1f\" y=\"%.1f\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
  put_text(out, chart->x_name);
  tn_buf_printf(out, "</text><text class=\"middle\" transform=\"translate(12 %.1f) rotate(-90)\">",
                (TOP + HEIGHT - BOTTOM) / 2);
  put_text(out, chart->y_name);
  tn_buf_puts(out, "</text>");
}

/* ---- lines ---- */

static void put_line(const one_chart *chart, const chart_line *line, const char *colour, tn_buf *out) {
  bool is_down = false;
  tn_buf_printf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", colour);
  for (size_t i = 0; i < line->count; i++) {
    if (!isfinite(line->y[i])) {
      is_down = false;
      continue;
    }
    tn_buf_printf(out, "%c%.1f %.1f", is_down ? 'L' : 'M', place_x(chart, line->x[i]), place_y(chart, line->y[i]));
    is_down = true;
  }
  tn_buf_puts(out, "\"/>");
  for (size_t i = 0; chart->has_points && i < line->count; i++)
    if (isfinite(line->y[i]))
      tn_buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>%g: %.4g</title></circle>",
                    place_x(chart, line->x[i]), place_y(chart, line->y[i]), colour, line->x[i], line->y[i]);
}

static void put_chart(one_chart *chart, tn_buf *out) {
  measure(chart);
  tn_buf_puts(out, "<figure><figcaption>");
  put_text(out, chart->title);
  for (size_t l = 0; l < chart->count; l++) {
    tn_buf_printf(out, " <span style=\"color:%s\">&#9632; ", colours[l % TN_COUNT(colours)]);
    put_text(out, chart->lines[l].name);
    tn_buf_puts(out, "</span>");
  }
  tn_buf_printf(out, "</figcaption><svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
  put_text(out, chart->title);
  tn_buf_puts(out, "\">");
  put_axes(chart, out);
  for (size_t l = 0; l < chart->count; l++) put_line(chart, chart->lines + l, colours[l % TN_COUNT(colours)], out);
  tn_buf_puts(out, "</svg></figure>\n");
}

/* ---- which charts ---- */

static bool has_rates(const tn_bench_report *report) {
  return report->count && report->points[0].rate > 0;
}

static double load_of(const tn_bench_summary *point) {
  return point->rate > 0 ? point->rate : (double)point->concurrency;
}

/* Adds a line over the points of the sweep; `y` gives a point's value. */
static void add_sweep(one_chart *chart, tn_arena *arena, const tn_bench_report *report, const char *name,
                      double (*y)(const tn_bench_summary *point, size_t which), size_t which) {
  chart_line *line = chart->lines + chart->count;
  if (chart->count == MAX_LINES) return;
  line->x = tn_arena_array(arena, report->count, sizeof(double));
  line->y = tn_arena_array(arena, report->count, sizeof(double));
  if (!line->x || !line->y) return;
  for (size_t i = 0; i < report->count; i++) {
    line->x[i] = load_of(report->points + i);
    line->y[i] = y(report->points + i, which);
  }
  line->count = report->count;
  snprintf(line->name, sizeof line->name, "%s", name);
  chart->count++;
}

static double throughput_at(const tn_bench_summary *point, size_t which) {
  return which ? point->steady_throughput : point->output_throughput;
}

static double percentile_at(const tn_bench_summary *point, size_t which) {
  return point->times[which / TN_BENCH_PERCENTILES].percentiles[which % TN_BENCH_PERCENTILES];
}

/* The share of requests that took at most so long, a line for each point, up to the 99.5th percentile. */
static void put_shares(const tn_bench_report *report, tn_arena *arena, tn_bench_time time, const char *title,
                       tn_buf *out) {
  enum { STEPS = 200 };
  one_chart chart = {.title = title, .x_name = "ms", .y_name = "share, %"};
  for (size_t p = 0; p < report->count && chart.count < MAX_LINES; p++) {
    const tn_bench_distribution *of = &report->points[p].times[time];
    chart_line *line = chart.lines + chart.count;
    line->x = tn_arena_array(arena, STEPS, sizeof(double));
    line->y = tn_arena_array(arena, STEPS, sizeof(double));
    if (!of->count || !line->x || !line->y) continue;
    for (size_t i = 0; i < STEPS; i++) {
      line->y[i] = 99.5 * (double)i / (STEPS - 1);
      line->x[i] = tn_bench_percentile(of->values, of->count, line->y[i]);
    }
    line->count = STEPS;
    snprintf(line->name, sizeof line->name, "%g%s", load_of(report->points + p),
             has_rates(report) ? " a second" : " at once");
    chart.count++;
  }
  if (chart.count) put_chart(&chart, out);
}

static void put_charts(const tn_bench_report *report, tn_arena *arena, tn_buf *out) {
  const char *load = has_rates(report) ? "requests a second" : "requests at once";
  one_chart tokens = {.title = "Output tokens per second", .x_name = load, .y_name = "tokens/s", .has_points = true};
  add_sweep(&tokens, arena, report, "whole run", throughput_at, 0);
  add_sweep(&tokens, arena, report, "while steady", throughput_at, 1);
  put_chart(&tokens, out);
  static const char *const titles[TN_BENCH_TIMES] = {"Time to first token", "Time per output token",
                                                     "Inter-token latency", "End-to-end latency"};
  for (tn_bench_time t = 0; t < TN_BENCH_TIMES; t++) {
    one_chart times = {.title = titles[t], .x_name = load, .y_name = "ms", .has_points = true};
    for (size_t i = 0; i < report->percentile_count; i++) {
      char name[16];
      snprintf(name, sizeof name, "p%g", report->percentiles[i]);
      add_sweep(&times, arena, report, name, percentile_at, t * TN_BENCH_PERCENTILES + i);
    }
    put_chart(&times, out);
  }
  put_shares(report, arena, TN_BENCH_TTFT, "Share of requests by time to first token", out);
  put_shares(report, arena, TN_BENCH_ITL, "Share of gaps by inter-token latency", out);
  put_shares(report, arena, TN_BENCH_E2EL, "Share of requests by end-to-end latency", out);
}

/* The table of the CSV. */
static void put_table(const tn_bench_report *report, tn_buf *out) {
  tn_buf csv;
  tn_buf_init(&csv);
  tn_bench_report_csv(report, &csv);
  tn_buf_puts(out, "<table><tr><th>");
  bool is_head = true;
  for (size_t i = 0; i + 1 < csv.size; i++) switch (csv.data[i]) {
      case ',': tn_buf_puts(out, is_head ? "<th>" : "<td>"); break;
      case '\n':
        is_head = false;
        tn_buf_puts(out, "<tr><td>");
        break;
      case '_': tn_buf_puts(out, "_<wbr>"); break;
      default: tn_buf_putc(out, csv.data[i]);
    }
  tn_buf_puts(out, "</table>\n");
  out->failed = out->failed || csv.failed;
  tn_buf_finish(&csv);
}

void tn_bench_report_html(const tn_bench_report *report, tn_buf *out) {
  tn_arena arena;
  tn_arena_init(&arena, 0);
  tn_buf_puts(
      out,
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>tenon bench serve</title>\n<style>"
      ":root{color-scheme:light dark}body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem}"
      "figure{display:inline-block;width:460px;max-width:100%;margin:.5rem}"
      "figcaption{font-weight:600}figcaption span{font-weight:400;font-size:13px}"
      "svg text{font-size:11px;fill:currentColor}.end{text-anchor:end}.middle{text-anchor:middle}"
      ".grid{stroke:#8884}.note{color:#dc2626}"
      "div{overflow-x:auto}table{border-collapse:collapse;font-size:13px}td,th{padding:2px 8px;text-align:right;"
      "border-bottom:1px solid #8884;vertical-align:bottom}</style>\n<h1>");
  put_text(out, report->target->model);
  tn_buf_puts(out, "</h1>\n<p>");
  put_text(out, report->target->base);
  tn_buf_printf(out, ", dataset %s, %zu requests a point, seed %llu</p>\n",
                tn_bench_prompts_name(report->prompts->kind), report->requests, (unsigned long long)report->seed);
  if (!report->is_complete) tn_buf_puts(out, "<p class=\"note\">Interrupted: the last point is not complete.</p>\n");
  put_charts(report, &arena, out);
  tn_buf_puts(out, "<div>");
  put_table(report, out);
  tn_buf_puts(out, "</div>\n</html>\n");
  tn_arena_finish(&arena);
}
