package alerts

import (
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

const (
	picture = "../../../docs/images/dashboard.svg"
	// What tests/e2e/dashboard.rs has scraped.
	scrapes  = "../../testdata/dashboard.txt"
	interval = 10 * time.Second
	end      = 12 * time.Minute
	// Grafana's $__rate_interval for this interval.
	rateInterval = "40s"
	// Of a unit of Grafana's grid, in pixels.
	column, row = 40.0, 24.0
	margin      = 8.0
	// Of a character of a legend, about.
	character = 6.2
	colors    = 13
)

// UPDATE_GOLDEN=1 draws it anew, and `make dashboard` records anew.
func TestPictureShowsTheDashboardOfTheRecording(t *testing.T) {
	drawn := draw(t)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, picture) != drawn {
		t.Error("docs/images/dashboard.svg is not of this dashboard: UPDATE_GOLDEN=1 make test-alerts")
	}
}

func draw(t *testing.T) string {
	server := serve(t, read(t, scrapes))
	for at := time.Duration(0); at <= end; at += interval {
		server.record(t, at)
	}
	drawn, height := "", 0
	for _, panel := range panels(t, rateInterval) {
		place := panel.GridPos
		height = max(height, place.Y+place.H)
		box := frame{t, &strings.Builder{}, column*float64(place.W) - margin, row*float64(place.H) - margin}
		switch panel.Type {
		case "stat":
			box.stat(panel, server)
		case "timeseries":
			box.timeSeries(panel, server)
		default:
			t.Fatalf("%s: a panel of the type %s", panel.Title, panel.Type)
		}
		drawn += fmt.Sprintf("<g transform=\"translate(%g %g)\">\n<rect width=\"%g\" height=\"%g\" rx=\"3\"/>\n"+
			"<text class=\"title\" x=\"10\" y=\"18\">%s</text>\n%s</g>\n", margin+column*float64(place.X),
			margin+row*float64(place.Y), box.width, box.height, html.EscapeString(panel.Title), box.out)
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 %g %g\" "+
		"font-family=\"system-ui,sans-serif\" font-size=\"11\">\n<title>The dashboard</title>\n%s%s</svg>\n",
		margin+24*column, margin+row*float64(height), style(), drawn)
}

func style() string {
	of := func(lightness int, background, panel, border, text, faint string) string {
		css := fmt.Sprintf("svg{background:%s}rect{fill:%s;stroke:%s}text{fill:%s}text.faint{fill:%s}.grid{stroke:%s}",
			background, panel, border, text, faint, border)
		for i := range colors {
			// By the golden angle, neighbors differ most.
			hue := math.Mod(210+137.5*float64(i), 360)
			css += fmt.Sprintf(".c%d{color:hsl(%.0f,65%%,%d%%)}", i, hue, lightness)
		}
		return css
	}
	return "<style>.title{font-size:12px;font-weight:600}text.value{font-size:26px;fill:currentColor}.grid{fill:none}" +
		".line{fill:none;stroke:currentColor;stroke-width:1.5}.area{fill:currentColor;opacity:.2}" +
		of(40, "#f6f8fa", "#ffffff", "#d1d9e0", "#1f2328", "#59636e") +
		"@media(prefers-color-scheme:dark){" + of(62, "#010409", "#0d1117", "#3d444d", "#e6edf3", "#9198a1") +
		"}</style>\n"
}

// A panel that is being drawn.
type frame struct {
	t             *testing.T
	out           *strings.Builder
	width, height float64
}

func (box frame) text(class, anchor string, x, y float64, text string) {
	fmt.Fprintf(box.out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, anchor, x, y,
		html.EscapeString(text))
}

func (box frame) stat(panel panel, server prometheus) {
	var names, values []string
	for _, target := range panel.Targets {
		for _, sample := range server.instant(box.t, target.Expr, end) {
			names = append(names, name(target.LegendFormat, sample.Metric))
			values = append(values, box.quantity(sample.F, panel.FieldConfig.Defaults.Unit))
		}
	}
	if panel.Options.TextMode == "name" {
		names, values = make([]string, len(names)), names
	}
	for i, value := range values {
		x := box.width * (float64(i) + 0.5) / float64(len(values))
		box.text("value c2", "middle", x, 54, value)
		if len(values) > 1 {
			box.text("faint", "middle", x, 74, names[i])
		}
	}
}

type curve struct {
	name    string
	stacked bool
	points  []promql.FPoint
}

// The curves of a panel, and the height of the highest.
func (box frame) curves(panel panel, server prometheus) (curves []curve, highest float64) {
	total := map[int64]float64{}
	for _, target := range panel.Targets {
		start := time.Unix(0, 0)
		query, err := server.engine.NewRangeQuery(box.t.Context(), server.storage, nil, target.Expr, start, start.Add(end), interval)
		if err != nil {
			box.t.Fatal(err)
		}
		defer query.Close()
		matrix, err := query.Exec(box.t.Context()).Matrix()
		if err != nil {
			box.t.Fatalf("%s: %v", target.Expr, err)
		}
		for _, series := range matrix {
			curve := curve{name: name(target.LegendFormat, series.Metric)}
			// The dashboard's only kind of override.
			curve.stacked = panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
			for _, override := range panel.FieldConfig.Overrides {
				curve.stacked = curve.stacked && override.Matcher.Options != curve.name
			}
			for _, point := range series.Floats {
				if math.IsNaN(point.F) {
					continue
				}
				highest = max(highest, point.F)
				if curve.stacked {
					total[point.T] += point.F
					highest = max(highest, total[point.T])
				}
				curve.points = append(curve.points, point)
			}
			curves = append(curves, curve)
		}
	}
	return curves, highest
}

func (box frame) timeSeries(panel panel, server prometheus) {
	curves, highest := box.curves(panel, server)
	if len(curves) == 0 {
		box.t.Errorf("%s: no data", panel.Title)
	}
	bottom := box.legend(curves) - 34
	left, right, top := 70.0, box.width-24, 32.0
	step := tick(highest)
	ceiling := max(math.Ceil(highest/step-1e-9), 1) * step
	x := func(t int64) float64 { return left + (right-left)*float64(t)/float64(end.Milliseconds()) }
	y := func(value float64) float64 { return bottom - (bottom-top)*value/ceiling }
	for value := 0.0; value <= ceiling+step/2; value += step {
		fmt.Fprintf(box.out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", left, y(value), right)
		box.text("faint", "end", left-5, y(value)+4, box.quantity(value, panel.FieldConfig.Defaults.Unit))
	}
	for at := time.Duration(0); at <= end; at += 3 * time.Minute {
		box.text("faint", "middle", x(at.Milliseconds()), bottom+16, fmt.Sprintf("%g min", at.Minutes()))
	}
	below := map[int64]float64{}
	var lines []string
	for i, curve := range curves {
		var upper, lower []point
		for _, sample := range curve.points {
			base := 0.0
			if curve.stacked {
				base = below[sample.T]
				below[sample.T] += sample.F
			}
			lower = append(lower, point{x(sample.T), y(base)})
			upper = append(upper, point{x(sample.T), y(base + sample.F)})
		}
		gap := 1.5*x(interval.Milliseconds()) - 1.5*left
		line := fmt.Sprintf("<path class=\"line c%d\" d=\"%s\"/>\n", i%colors, path(upper, gap))
		if curve.stacked && !slices.Equal(upper, lower) {
			slices.Reverse(lower)
			line = fmt.Sprintf("<path class=\"area c%d\" d=\"%sZ\"/>\n", i%colors, path(append(upper, lower...), math.Inf(1))) + line
		}
		lines = append(lines, line)
	}
	// The first is on top: curves that are 0 lie on those below them.
	slices.Reverse(lines)
	box.out.WriteString(strings.Join(lines, ""))
}

// Draws the names of curves at the bottom, and returns where they begin.
func (box frame) legend(curves []curve) float64 {
	entries, x, y := "", 12.0, 0.0
	for i, curve := range curves {
		width := 28 + character*float64(len(curve.name))
		if x+width > box.width {
			x, y = 12, y+16
		}
		entries += fmt.Sprintf("<path class=\"line c%d\" d=\"M%.1f %.1fh12\"/>\n"+
			"<text class=\"faint\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			i%colors, x, y-4, x+16, y, html.EscapeString(curve.name))
		x += width
	}
	top := box.height - y - 10
	fmt.Fprintf(box.out, "<g transform=\"translate(0 %g)\">\n%s</g>\n", top, entries)
	return top
}

type point struct{ x, y float64 }

// A path through points, without those in the middle of a level. After a gap it begins anew.
func path(points []point, gap float64) string {
	var d strings.Builder
	for i, at := range points {
		isFirst := i == 0 || math.Abs(at.x-points[i-1].x) > gap
		isLast := i == len(points)-1 || math.Abs(points[i+1].x-at.x) > gap
		switch {
		case isFirst:
			fmt.Fprintf(&d, "M%.1f %.1f", at.x, at.y)
		case isLast || at.y != points[i-1].y || at.y != points[i+1].y:
			fmt.Fprintf(&d, "L%.1f %.1f", at.x, at.y)
		}
	}
	return d.String()
}

// The distance of at most five lines of a grid.
func tick(highest float64) float64 {
	if highest == 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	factors := []float64{0.2, 0.25, 0.5, 1, 2, 2.5}
	return power * factors[slices.IndexFunc(factors, func(factor float64) bool { return highest <= 4.001*factor*power })]
}

var label = regexp.MustCompile(`{{(\w+)}}`)

func name(format string, metric labels.Labels) string {
	return label.ReplaceAllStringFunc(format, func(label string) string { return metric.Get(strings.Trim(label, "{}")) })
}

// Grafana's units: a factor, and what stands behind the number.
var units = map[string]struct {
	factor float64
	suffix string
}{
	"short": {1, ""}, "percentunit": {100, "%"}, "reqps": {1, " req/s"}, "ops": {1, " ops/s"},
	"s": {1, " s"}, "ms": {1e3, " ms"}, "µs": {1e6, " µs"},
}

func (box frame) quantity(value float64, unit string) string {
	switch {
	case unit == "s" && value > 0 && value < 0.001:
		unit = "µs"
	case unit == "s" && value > 0 && value < 1:
		unit = "ms"
	}
	as, known := units[unit]
	if !known {
		box.t.Fatalf("the unit %s", unit)
	}
	return strconv.FormatFloat(math.Round(as.factor*value*1000)/1000, 'f', -1, 64) + as.suffix
}
