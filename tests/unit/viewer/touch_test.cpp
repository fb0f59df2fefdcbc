// SPDX-License-Identifier: Apache-2.0
// Fingers as a mouse: what clicks, pans, scrolls, marks and zooms.
#include "viewer/page/touch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace memreel::viewer {
namespace {

/// A screen of 2 pixels per unit, and ImGui's mouse behind it.
class Fingers : public ::testing::Test {
 protected:
  Fingers() { ImGui::CreateContext(); }
  ~Fingers() override { ImGui::DestroyContext(); }

  Touch::Mouse at(std::vector<ImVec2> fingers) { return mouse_ = touch_.follow(fingers, 2, now_ += 0.01, buttons_); }
  void wait(double seconds) { now_ += seconds; }
  /// What the buttons did since the last call: "L+" where the left one went down.
  std::string buttons() {
    std::string said;
    ImGuiIO& io = ImGui::GetIO();
    while (buttons_.pending()) {
      buttons_.apply_next(io);
      for (int button = 0; button < 2; ++button)
        if (io.MouseDown[button] != down_[button]) {
          down_[button] = io.MouseDown[button];
          said += std::string(button == 0 ? "L" : "R") + (down_[button] ? "+" : "-");
          place_ = io.MousePos;
        }
    }
    return said;
  }

  Touch touch_;
  Touch::Mouse mouse_;
  MouseButtons buttons_;
  ImVec2 place_{0, 0};

 private:
  double now_ = 100;
  bool down_[2]{};
};

TEST_F(Fingers, ATapClicksWhereItBegan) {
  at({{100, 200}});
  at({{104, 206}});  // a finger never rests quite still
  EXPECT_EQ(buttons(), "") << "it may still become a drag";
  EXPECT_EQ(at({}).wheel, 0);
  EXPECT_EQ(buttons(), "L+L-");
  EXPECT_EQ(place_.x, 100);
  EXPECT_EQ(place_.y, 200);
}

TEST_F(Fingers, ADragToTheSidePans) {
  at({{100, 200}});
  EXPECT_EQ(at({{130, 210}}).pointer.x, 130);
  at({{160, 280}});  // once begun, its direction does not matter
  EXPECT_EQ(mouse_.wheel, 0);
  EXPECT_FALSE(mouse_.shift);
  at({});
  EXPECT_EQ(buttons(), "R+R-");
  EXPECT_EQ(place_.x, 160) << "released where the finger left";
}

TEST_F(Fingers, ADragUpOrDownTurnsTheWheelByWhatItMoved) {
  at({{100, 600}});
  float notches = 0;
  for (float y = 590; y >= 360; y -= 10) notches += at({{100, y}}).wheel;
  EXPECT_EQ(mouse_.pointer.y, 600) << "the list under the finger scrolls, also when the finger leaves it";
  EXPECT_NEAR(notches, -2, 0.01) << "240 pixels are 120 units, six rows";
  at({});
  EXPECT_EQ(buttons(), "") << "no click";
}

TEST_F(Fingers, ADragAfterRestingMarks) {
  at({{100, 200}});
  wait(0.5);
  EXPECT_TRUE(at({{140, 200}}).shift);
  EXPECT_EQ(buttons(), "L+");
  EXPECT_EQ(place_.x, 100);
  at({{300, 200}});
  EXPECT_FALSE(at({}).shift);
  EXPECT_EQ(buttons(), "L-");
}

TEST_F(Fingers, TwoFingersZoomAtTheirMiddle) {
  at({{100, 200}});
  at({{100, 200}, {300, 200}});
  float notches = 0;
  for (float x = 320; x <= 500; x += 20) notches += at({{100, 200}, {x, 200}}).wheel;
  EXPECT_NEAR(std::pow(0.75, notches), 0.5, 0.001) << "twice as far apart: half as much time is shown";
  EXPECT_EQ(mouse_.pointer.x, 300);
  // The fingers leave one after the other.
  at({{100, 200}});
  at({{160, 300}});
  EXPECT_EQ(mouse_.wheel, 0);
  at({});
  EXPECT_EQ(buttons(), "") << "neither a click nor a pan";
  at({{50, 60}});
  at({});
  EXPECT_EQ(buttons(), "L+L-") << "the next tap clicks again";
}

TEST_F(Fingers, ASecondFingerEndsAPan) {
  at({{100, 200}});
  at({{150, 200}});
  EXPECT_EQ(at({{150, 200}, {250, 200}}).wheel, 0) << "the zoom begins at what is shown";
  EXPECT_EQ(buttons(), "R+R-");
}

}  // namespace
}  // namespace memreel::viewer
