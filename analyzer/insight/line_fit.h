// A least-squares line through points.
#pragma once

namespace memreel {

class LineFit {
 public:
  void add(double x, double y) {
    n_ += 1;
    sx_ += x;
    sy_ += y;
    sxx_ += x * x;
    sxy_ += x * y;
    syy_ += y * y;
  }

  double count() const { return n_; }
  double mean() const { return n_ == 0 ? 0 : sy_ / n_; }  // of y
  /// 0 unless there are points at two places.
  double slope() const { return spread() <= 0 ? 0 : covariance() / spread(); }
  /// The share of y's variance that the line explains, 0 to 1; 0 if there is nothing to explain.
  double r2() const {
    const double height = n_ * syy_ - sy_ * sy_;
    return spread() <= 0 || height <= 0 ? 0 : covariance() * covariance() / (spread() * height);
  }

 private:
  double spread() const { return n_ * sxx_ - sx_ * sx_; }
  double covariance() const { return n_ * sxy_ - sx_ * sy_; }

  double n_ = 0, sx_ = 0, sy_ = 0, sxx_ = 0, sxy_ = 0, syy_ = 0;
};

}  // namespace memreel
