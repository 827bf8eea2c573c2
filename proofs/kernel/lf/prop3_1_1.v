(* lf.prop3.1.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Proposition 3.1 (1).
   Under Assumptions 3.1 and 3.2, E[gamma^{B,a}(theta')] <= E[gamma^{B,b}(theta')], gamma^B the angle between grad f and s^B. The proof adds E(gamma^{Uv,a}) >= E(gamma^{vw,b}). *)
From kernel Require Import definitions lemmas.

From kernel Require Import lf.lem3_2a lf.lem3_2b.
(* The batch is the whole data, so that there is nothing random; all angles are of the trainable parameters. *)
Definition longer (C : R) (v : vec) : bool := if Rlt_dec C (norm v) then true else false.     (* |g| > C *)
Definition clipped C gs := filter (fun g => longer C (full g)) gs.
Definition kept C gs := filter (fun g => negb (longer C (full g))) gs.
Definition trainable d (gs : list sample) : vec := average d (map fst gs).
Definition whole D (gs : list sample) : vec := average D (map full gs).
(* 3.1: the mean of the clipped gradients is closer in angle to the true gradient than that of the others: of the trainable parameters, and of all D *)
Definition assumption_3_1 d D C gs : Prop :=
  angle (trainable d gs) (trainable d (clipped C gs)) < angle (trainable d gs) (trainable d (kept C gs)) /\
  angle (whole D gs) (whole D (clipped C gs)) < angle (whole D gs) (whole D (kept C gs)).
(* 3.2: freezing does not change which gradients are clipped *)
Definition assumption_3_2 C (gs : list sample) : Prop := Forall (fun g => longer C (full g) = longer C (fst g)) gs.
(* what the proof adds: v and w are the sums of the unclipped and of the clipped gradients, U is the true signal *)
Definition added d C gs : Prop :=
  angle (sum d (map fst (kept C gs))) (sum d (map (before C) (clipped C gs)))
  <= angle (trainable d gs) (sum d (map fst (kept C gs))).
Definition printed : Prop := forall d D C gs, 0 < C -> batch d gs -> Forall (fun g => length (full g) = D) gs ->
  clipped C gs <> [] -> kept C gs <> [] ->
  0 < norm (trainable d gs) -> 0 < norm (signal_before d C gs) -> 0 < norm (signal_after d C gs) ->
  assumption_3_1 d D C gs -> assumption_3_2 C gs -> added d C gs ->
  angle (trainable d gs) (signal_after d C gs) <= angle (trainable d gs) (signal_before d C gs).

(* C = 1, the data are (72, 0; 21), (0, 16; 63), (-1/100, 1/100; 0): two trainable entries, one frozen. The bias angle rises from 2.6 to 33 degrees. *)
Definition three : list sample := [([72; 0], [21]); ([0; 16], [63]); ([- (1 / 100); 1 / 100], [0])].
Definition short : sample := ([- (1 / 100); 1 / 100], [0]).
Lemma longer_true C v n : norm v = n -> C < n -> longer C v = true.
Proof. intros e l. unfold longer. rewrite e. destruct (Rlt_dec C n); [reflexivity | contradiction]. Qed.
Lemma longer_false C v : norm v <= C -> longer C v = false.
Proof. intro l. unfold longer. destruct (Rlt_dec C (norm v)); [lra | reflexivity]. Qed.
Lemma n75 : norm [72; 0; 21] = 75. Proof. norm_of. Qed.
Lemma n65 : norm [0; 16; 63] = 65. Proof. norm_of. Qed.
Lemma n72 : norm [72; 0] = 72. Proof. norm_of. Qed.
Lemma n16 : norm [0; 16] = 16. Proof. norm_of. Qed.
Lemma s3 : norm [- (1 / 100); 1 / 100; 0] <= 1. Proof. apply norm_le; unfold square, dot; simpl; lra. Qed.
Lemma s2 : norm [- (1 / 100); 1 / 100] <= 1. Proof. apply norm_le; unfold square, dot; simpl; lra. Qed.
Lemma l1 : longer 1 [72; 0; 21] = true. Proof. apply (longer_true _ _ 75 n75). lra. Qed.
Lemma l2 : longer 1 [0; 16; 63] = true. Proof. apply (longer_true _ _ 65 n65). lra. Qed.
Lemma l3 : longer 1 [- (1 / 100); 1 / 100; 0] = false. Proof. apply longer_false, s3. Qed.
Lemma clipped_three : clipped 1 three = [([72; 0], [21]); ([0; 16], [63])].
Proof. unfold clipped, three, full. cbn [filter fst snd app]. rewrite l1, l2, l3. reflexivity. Qed.
Lemma kept_three : kept 1 three = [short].
Proof. unfold kept, three, full. cbn [filter fst snd app]. rewrite l1, l2, l3. reflexivity. Qed.
Ltac vector := cbv [sum map fold_right add zip scale zero repeat length INR fst snd app].
Ltac ends := repeat (apply f_equal2; [lra|]); reflexivity.
Lemma t_true : trainable 2 three = [7199 / 300; 1601 / 300].
Proof. unfold trainable, average, three. vector. ends. Qed.
Lemma t_clipped : trainable 2 [([72; 0], [21]); ([0; 16], [63])] = [36; 8].
Proof. unfold trainable, average. vector. ends. Qed.
Lemma t_kept : trainable 2 [short] = [- (1 / 100); 1 / 100].
Proof. unfold trainable, average, short. vector. ends. Qed.
Lemma w_true : whole 3 three = [7199 / 300; 1601 / 300; 28].
Proof. unfold whole, average, three, full. vector. ends. Qed.
Lemma w_clipped : whole 3 [([72; 0], [21]); ([0; 16], [63])] = [36; 8; 42].
Proof. unfold whole, average, full. vector. ends. Qed.
Lemma w_kept : whole 3 [short] = [- (1 / 100); 1 / 100; 0].
Proof. unfold whole, average, short, full. vector. ends. Qed.
Lemma b1 : before 1 ([72; 0], [21]) = [24 / 25; 0].
Proof. unfold before, part, full. cbn [fst snd app]. rewrite n75, Rmin_right by lra. vector. ends. Qed.
Lemma b2 : before 1 ([0; 16], [63]) = [0; 16 / 65].
Proof. unfold before, part, full. cbn [fst snd app]. rewrite n65, Rmin_right by lra. vector. ends. Qed.
Lemma factor_one n : 0 < n <= 1 -> Rmin 1 (1 / n) = 1.
Proof. intros [a b]. apply Rmin_left. apply (Rmult_le_reg_r n); [exact a|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. Qed.
Lemma b3 : before 1 short = [- (1 / 100); 1 / 100].
Proof. unfold before, part, full, short. cbn [fst snd app]. rewrite factor_one by (split; [apply norm_pos; unfold square, dot; simpl; lra | apply s3]). apply scale_one. Qed.
Lemma a1 : after 1 ([72; 0], [21]) = [1; 0].
Proof. unfold after, part. cbn [fst snd]. rewrite n72, Rmin_right by lra. vector. ends. Qed.
Lemma a2 : after 1 ([0; 16], [63]) = [0; 1].
Proof. unfold after, part. cbn [fst snd]. rewrite n16, Rmin_right by lra. vector. ends. Qed.
Lemma a3 : after 1 short = [- (1 / 100); 1 / 100].
Proof. unfold after, part, short. cbn [fst snd]. rewrite factor_one by (split; [apply norm_pos; unfold square, dot; simpl; lra | apply s2]). apply scale_one. Qed.
Lemma s_before : signal_before 2 1 three = [19 / 60; 333 / 3900].
Proof. unfold signal_before, average, three. fold short. cbn [map]. rewrite b1, b2, b3. vector. ends. Qed.
Lemma s_after : signal_after 2 1 three = [33 / 100; 101 / 300].
Proof. unfold signal_after, average, three. fold short. cbn [map]. rewrite a1, a2, a3. vector. ends. Qed.
Ltac numbers := unfold square, dot; simpl; lra.
Theorem satisfiable : assumption_3_1 2 3 1 three /\ assumption_3_2 1 three /\ added 2 1 three.
Proof.
  split; [|split].
  - split; apply angle_lt; rewrite clipped_three, kept_three; rewrite ?t_true, ?t_clipped, ?t_kept, ?w_true, ?w_clipped, ?w_kept;
      (apply Rle_lt_trans with 0; [apply cosine_neg; numbers | apply cosine_posi; numbers]).
  - repeat constructor; unfold full; cbn [fst snd app]; rewrite ?l1, ?l2, ?l3; symmetry.
    + apply (longer_true _ _ 72 n72); lra.
    + apply (longer_true _ _ 16 n16); lra.
    + apply longer_false, s2.
  - unfold added. rewrite clipped_three, kept_three, t_true. apply angle_le. cbn [map fst]. rewrite b1, b2.
    assert (e1 : sum 2 [fst short] = [- (1 / 100); 1 / 100]) by (unfold short; vector; ends).
    assert (e2 : sum 2 [[24 / 25; 0]; [0; 16 / 65]] = [24 / 25; 16 / 65]) by (vector; ends). rewrite e1, e2.
    apply Rle_trans with (- (52 / 100)).
    + apply Ropp_le_cancel. rewrite Ropp_involutive, <- cosine_opp. apply cosine_ge; numbers.
    + apply Ropp_le_cancel. rewrite Ropp_involutive, <- cosine_opp. apply cosine_le; numbers.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct satisfiable as (x & y & z).
  assert (h : angle (trainable 2 three) (signal_after 2 1 three) <= angle (trainable 2 three) (signal_before 2 1 three)).
  { apply (claim 2%nat 3%nat); try assumption; try lra.
    - split; [discriminate | repeat constructor].
    - repeat constructor.
    - rewrite clipped_three; discriminate.
    - rewrite kept_three; discriminate.
    - rewrite t_true; apply norm_pos; numbers.
    - rewrite s_before; apply norm_pos; numbers.
    - rewrite s_after; apply norm_pos; numbers. }
  apply angle_le in h. rewrite t_true, s_before, s_after in h.
  assert (cosine [7199 / 300; 1601 / 300] [33 / 100; 101 / 300] <= 9 / 10) by (apply cosine_le; numbers).
  assert (99 / 100 <= cosine [7199 / 300; 1601 / 300] [19 / 60; 333 / 3900]) by (apply cosine_ge; numbers). lra.
Qed.
